package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"mbox/mailbox"
	"mbox/mailbox/channel"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// lastMessages is how many of a channel are shown where nothing else is said.
const lastMessages = 50

func channelRoutes() []route {
	return []route{
		{method: "GET", path: "/api/channels", agents: true, about: "the channels there are", gives: ChannelList{}, do: allChannels},
		{method: "POST", path: "/api/channels", needs: operate, about: "make a channel; the same again is the same channel", takes: NewChannel{}, gives: mailbox.Posted{}, do: createChannel},
		{
			method: "GET", path: "/api/channels/{name}/messages", agents: true, about: "what was said in a channel, the oldest first", gives: Said{}, do: channelMessages,
			query: []param{
				{name: "since", about: "only what is behind this number", form: notNegative()},
				{name: "n", about: "at most so many (50): the last, or with since the first behind it", form: between(1, mostPage)},
			},
		},
		{method: "POST", path: "/api/channels/{name}/messages", needs: post, agents: true, about: "say something in a channel; an agent's token needs the claim that it is said for", takes: Saying{}, gives: mailbox.Posted{}, status: http.StatusCreated, do: sayInChannel},
	}
}

// notNegative is the number of a line.
func notNegative() form {
	return form{map[string]any{"type": "integer", "minimum": 0}, func(v string) error {
		if n, err := strconv.ParseInt(v, 10, 64); err != nil || n < 0 {
			return fmt.Errorf("%s is no number of a line", schemas.Quote(v))
		}
		return nil
	}}
}

// ChannelList is all channels.
type ChannelList struct {
	Channels []*mailbox.ChannelInfo `json:"channels"`
}

// NewChannel is a channel to be made.
type NewChannel struct {
	Name  string `json:"name" jsonschema:"required,pattern=^[a-z0-9][a-z0-9_-]{0\\,63}$,description=lower-case letters\\, digits\\, _ and -"`
	Topic string `json:"topic,omitzero" jsonschema:"description=what it is about"`
}

// Said is a page of a channel.
type Said struct {
	Channel  string            `json:"channel"`
	Messages []*mailbox.Posted `json:"messages"`
	More     bool              `json:"more,omitzero" jsonschema:"description=there are others\\, earlier ones\\, or with since later ones"`
	Changed  int               `json:"changed,omitzero" jsonschema:"description=messages that are not as they were posted\\, and not shown"`
}

// Saying is a message to be posted.
type Saying struct {
	Text    string     `json:"text" jsonschema:"required,minLength=1,maxLength=32768"`
	Type    string     `json:"type,omitzero" jsonschema:"pattern=^([a-z][a-z0-9_-]{0\\,31})?$,description=a word that says what kind it is"`
	ID      *string    `json:"id,omitzero" jsonschema:"pattern=^[A-Za-z0-9][A-Za-z0-9._-]{0\\,127}$,description=the same again is the same message"`
	ReplyTo string     `json:"reply_to,omitzero" jsonschema:"description=id of the message that it answers"`
	Task    mailbox.ID `json:"task,omitzero" jsonschema:"description=for which it is said\\, with the token of its claim"`
	Token   string     `json:"token,omitzero" jsonschema:"description=of that claim"`
}

func allChannels(c *call) error {
	if err := c.tidy(); err != nil {
		return err
	}
	all, err := mailbox.Channels(c.ctx, c.Box)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, ChannelList{all})
}

func createChannel(c *call) error {
	data, err := c.body()
	if err != nil {
		return err
	}
	var o NewChannel
	if err := schemas.Decode(data, &o); err != nil {
		return err
	}
	p := mailbox.Post{Channel: o.Name, Text: cmp.Or(o.Topic, o.Name), From: c.by(), Create: true}
	return renamed(answerPosted(c, http.StatusOK, p), "channel", "name", "text", "topic")
}

func channelMessages(c *call) error {
	if err := c.tidy(); err != nil {
		return err
	}
	of := mailbox.Reading{Channel: c.r.PathValue("name")}
	if err := channelThere(c, of.Channel); err != nil {
		return err
	}
	of.Limit = c.number("n", lastMessages)
	if since := c.value("since"); since != "" {
		of.Since, _ = strconv.ParseInt(since, 10, 64) // it was checked
		of.First = true
	}
	messages, more, bad, err := mailbox.MessagePage(c.ctx, c.Box, of)
	if err != nil {
		return err
	}
	if messages == nil {
		messages = []*mailbox.Posted{}
	}
	return c.json(http.StatusOK, Said{of.Channel, messages, more, len(bad)})
}

func channelThere(c *call, name string) error {
	if channel.CheckName(name) == nil {
		_, err := mailbox.MessageOf(c.Box, channel.CreatedID(name))
		if !errors.Is(err, mailbox.ErrNotFound) {
			return err
		}
	}
	return &refusal{http.StatusNotFound, "there is no channel " + schemas.Sentence(name, 128), "GET /api/channels lists them"}
}

func sayInChannel(c *call) error {
	data, err := c.body()
	if err != nil {
		return err
	}
	var o Saying
	if err := schemas.Decode(data, &o); err != nil {
		return err
	}
	p := mailbox.Post{Channel: c.r.PathValue("name"), Text: o.Text, Type: o.Type, ReplyTo: o.ReplyTo}
	if o.ID != nil {
		if p.ID = *o.ID; p.ID == "" { // of a variable that is not set: said again it would be another message
			return task.Fault("id", "it is empty", "an id, or none at all")
		}
	}
	if err := channelThere(c, p.Channel); err != nil {
		return err
	}
	if p.From, p.By, err = speakerOf(c, &o); err != nil {
		return err
	}
	return renamed(answerPosted(c, http.StatusCreated, p), "message_id", "id")
}

// speakerOf tells who says it, and by which claim. An agent speaks by its claim alone: else
// two agents could talk to each other without an end.
func speakerOf(c *call, o *Saying) (string, *mailbox.Claim, error) {
	switch {
	case c.name == "":
		return "", nil, unauthorized("without a token nothing is said in channels")
	case (o.Task == "") != (o.Token == ""):
		return "", nil, badRequest("task and token belong together", "MBOX_TASK_ID and MBOX_TOKEN, as a task's command has them")
	case o.Task == "" && c.agent != "":
		return "", nil, forbidden("an agent speaks for a task that it has claimed", "send task and token: MBOX_TASK_ID and MBOX_TOKEN of its command")
	case o.Task == "":
		return c.by(), nil, nil
	}
	claim, err := c.Box.Held(c.ctx, o.Task, o.Token)
	if err != nil {
		return "", nil, renamed(err, "id", "task")
	}
	if c.agent != "" && claim.Agent() != c.agent {
		return "", nil, forbidden("this claim is another agent's", "the token of an own claim")
	}
	return claim.Agent(), claim, nil
}

// answerPosted posts, and answers with the message. What is committed counts.
func answerPosted(c *call, status int, p mailbox.Post) error {
	m, _, _, err := mailbox.PostMessage(c.ctx, c.Box, p)
	if errors.Is(err, mailbox.ErrCommitted) && m != nil {
		err = nil // its items are made by the next scan
	}
	switch {
	case errors.Is(err, mailbox.ErrNotFound):
		return &refusal{http.StatusNotFound, err.Error(), "GET /api/channels/" + p.Channel + "/messages shows what was said there"}
	case errors.Is(err, mailbox.ErrConflict) && p.Create:
		return &refusal{http.StatusConflict, "there is a channel " + p.Channel + " with another topic", "GET /api/channels tells what it is about"}
	case errors.Is(err, mailbox.ErrConflict):
		return &refusal{http.StatusConflict, err.Error(), "send it with another id, or with none"}
	case err != nil:
		return err
	}
	return c.json(status, m)
}
