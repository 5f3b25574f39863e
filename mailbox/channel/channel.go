// Package channel reads and writes messages, the files channels/<channel>/<id>.json of
// a mailbox, and tells whom one is for. It does no I/O and knows no ledger: package
// mailbox writes a message with its line, and makes the tasks by which it reaches the
// inboxes of agents.
//
// A message is written once and never changed. Its number is the seq of its line.
package channel

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"mbox/audit"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// Limits of a message.
const (
	MaxText      = 32 << 10 // bytes
	MaxMentions  = 20       // names of agents in a text
	MaxReceivers = 100      // inboxes that it comes into
)

// Ids that mbox makes begin so, and no other ids do.
const (
	createdPrefix = "channel-" // of what makes a channel
	replyPrefix   = "reply-"   // of the answer to an inbox item
)

// Created is the type of the message that makes a channel.
const Created = "created"

// DefaultType is that of a message that says none.
const DefaultType = "message"

// Names that stand for many, behind an @.
const (
	Agents = "agents" // all agents that are enabled
	Apes   = "apes"   // the people: whom [notify] tells
)

// Group tells whether a name stands for many.
func Group(name string) bool { return name == Agents || name == Apes }

// How a message comes into an inbox: the first word of the item's mbox.trigger.
const (
	Mention   = "mention"   // its text names the agent
	Watch     = "watch"     // the agent watches the channel
	Broadcast = "broadcast" // its text names all agents
)

// Message is what somebody has said in a channel.
type Message struct {
	ID      string    `json:"id"`
	Version int64     `json:"version"` // 1
	Channel string    `json:"channel"`
	Posted  task.Time `json:"posted"`
	From    string    `json:"from"` // an agent, or human
	Type    string    `json:"type"` // a word of whoever posts; created makes the channel
	Text    string    `json:"text"`
	ReplyTo string    `json:"reply_to,omitzero"` // id of another message of the channel
	// Task is the one that its poster was working on. Root, Depth and Budget are those of
	// its items; Ended says that they would be too deep, so that nobody got one.
	Task   task.ID     `json:"task,omitzero"`
	Root   task.ID     `json:"root,omitzero"`
	Depth  int64       `json:"depth,omitzero"`
	Budget task.Budget `json:"budget,omitempty"`
	Ended  bool        `json:"ended,omitzero"`
	// Receivers get it into their inboxes, each once.
	Receivers []Receiver `json:"receivers,omitempty"`
	People    bool       `json:"people,omitzero"` // its text names the people
}

// Receiver is an agent that a message is for, and why.
type Receiver struct {
	Agent   string `json:"agent"`
	Trigger string `json:"trigger"` // mention, watch or broadcast
}

var (
	nameForm = schemas.Pattern(`^[a-z0-9][a-z0-9_-]{0,63}$`)
	typeForm = schemas.Pattern(`^[a-z][a-z0-9_-]{0,31}$`)
)

// CheckName returns an error if no channel can have this name.
func CheckName(name string) error {
	if nameForm().MatchString(name) {
		return nil
	}
	return task.Fault("channel", schemas.Quote(schemas.Sentence(name, 80))+" is no name of a channel", "lower-case letters, digits, _ and -, at most 64")
}

// CheckID returns an error if somebody may not give a message this id.
func CheckID(id string) error {
	if err := checkForm("message_id", id); err != nil {
		return err
	}
	if folded := strings.ToLower(id); strings.HasPrefix(folded, createdPrefix) || strings.HasPrefix(folded, replyPrefix) {
		return task.Fault("message_id", "ids that begin with "+createdPrefix+" or "+replyPrefix+" are made by mbox", "another id")
	}
	return nil
}

func checkForm(path, id string) error {
	if audit.TaskForm().MatchString(id) {
		return nil
	}
	return task.Fault(path, schemas.Quote(schemas.Sentence(id, 80))+" is no id of a message", "a letter or digit, then at most 127 letters, digits, '.', '_' and '-'")
}

// CreatedID is the id of the message that makes a channel.
func CreatedID(name string) string { return createdPrefix + name }

// ReplyID is the id of the answer to an inbox item. An item has one, however often it
// is worked at.
func ReplyID(item task.ID) string {
	return replyPrefix + strings.TrimPrefix(audit.Hash([]byte(item.Fold())), "sha256:")[:32]
}

// Check returns an error if the message is none: a [*schemas.Error] that names the
// field.
func (m *Message) Check() error {
	if m.Version != 1 {
		return task.Fault("version", fmt.Sprintf("version %d is unknown", m.Version), "1")
	}
	if err := checkForm("id", m.ID); err != nil {
		return err
	}
	if err := CheckName(m.Channel); err != nil {
		return err
	}
	if err := task.CheckActor(m.From); err != nil {
		return at("from", err)
	}
	if !typeForm().MatchString(m.Type) {
		return task.Fault("type", schemas.Quote(schemas.Sentence(m.Type, 60))+" is no type", "a lower-case word of at most 32 letters, digits, _ and -")
	}
	if m.ReplyTo != "" {
		if err := checkForm("reply_to", m.ReplyTo); err != nil {
			return err
		}
	}
	return m.checkText()
}

func (m *Message) checkText() error {
	switch {
	case strings.TrimSpace(m.Text) == "":
		return &schemas.Error{Path: "text", Code: schemas.CodeMissingField, Problem: "there is no text", Want: "what is to be said"}
	case len(m.Text) > MaxText:
		return &schemas.Error{Path: "text", Code: schemas.CodeTooLong, Problem: fmt.Sprintf("%d bytes", len(m.Text)), Want: fmt.Sprintf("at most %d; put more into a file and name that", MaxText)}
	case !utf8.ValidString(m.Text):
		return &schemas.Error{Path: "text", Code: schemas.CodeInvalidUTF8, Problem: "it is not UTF-8", Want: "text"}
	case len(m.Receivers) > MaxReceivers:
		return &schemas.Error{Path: "receivers", Code: schemas.CodeTooLong, Problem: fmt.Sprintf("it is for %d agents", len(m.Receivers)), Want: fmt.Sprintf("at most %d", MaxReceivers)}
	}
	if n := len(names(m.Text)); n > MaxMentions {
		return &schemas.Error{Path: "text", Code: schemas.CodeTooLong, Problem: fmt.Sprintf("it names %d agents or groups", n), Want: fmt.Sprintf("at most %d", MaxMentions)}
	}
	return nil
}

func at(path string, err error) error {
	if bad, ok := err.(*schemas.Error); ok {
		c := *bad
		c.Path = path
		return &c
	}
	return err
}

// Same tells whether two messages say the same: who said it, where, and in which
// words. When it was said, and who got it, may differ.
func (m *Message) Same(other *Message) bool {
	return strings.EqualFold(m.ID, other.ID) && m.Channel == other.Channel && m.From == other.From && m.Type == other.Type && m.Text == other.Text && m.ReplyTo == other.ReplyTo
}

// File is where a message lies, from the home.
func (m *Message) File() string { return Folder(m.Channel) + "/" + m.ID + ".json" }

// Folder is where the messages of a channel lie, from the home.
func Folder(name string) string { return "channels/" + name }

// Parse reads a message.
func Parse(data []byte) (*Message, error) {
	m := new(Message)
	if err := schemas.Decode(data, m); err != nil {
		return nil, err
	}
	return m, m.Check()
}

// Member is an agent that may receive messages.
type Member struct {
	Name    string
	Is      string   // whom the name means, where that has another one now
	Off     bool     // it gets only what names it
	Unasked bool     // it gets nothing that is for all agents
	Watches []string // channels
}

// Address fills in whom the message is for: agents that its text names, with @agents all,
// and who watches its channel. Who posts gets nothing of it. An agent gets it once, for the
// first of these reasons. It returns the names in the text that nobody has, Agents among
// them where it names all and there is none.
func (m *Message) Address(members []Member) (unknown []string) {
	m.Receivers, m.People = nil, false
	all := false
	for _, name := range names(m.Text) {
		switch name {
		case Agents:
			all = true
		case Apes:
			m.People = true
		default:
			i := slices.IndexFunc(members, func(who Member) bool { return who.Name == name })
			if i < 0 {
				unknown = append(unknown, name)
				continue
			}
			m.add(cmp.Or(members[i].Is, name), Mention)
		}
	}
	for _, who := range members {
		if all && !who.Off && !who.Unasked {
			m.add(who.Name, Broadcast)
		}
	}
	if all && len(m.Receivers) == 0 {
		unknown = append(unknown, Agents)
	}
	for _, who := range members {
		if !who.Off && slices.Contains(who.Watches, m.Channel) {
			m.add(who.Name, Watch)
		}
	}
	return unknown
}

func (m *Message) add(name, trigger string) {
	if name != m.From && !slices.ContainsFunc(m.Receivers, func(r Receiver) bool { return r.Agent == name }) {
		m.Receivers = append(m.Receivers, Receiver{name, trigger})
	}
}

var mentionForm = schemas.Pattern(`@([A-Za-z0-9][A-Za-z0-9_-]*)`)

// names are those behind an @ in the text, in lower case, each once. The @ of a mail
// address or a path is none: a letter, digit or the like before it makes it part of a word.
func names(text string) (found []string) {
	for _, at := range mentionForm().FindAllStringSubmatchIndex(text, -1) {
		before, _ := utf8.DecodeLastRuneInString(text[:at[0]])
		name := strings.ToLower(text[at[2]:at[3]])
		if at[0] > 0 && inWord(before) || goesOn(text[at[3]:]) || !nameForm().MatchString(name) || slices.Contains(found, name) {
			continue
		}
		found = append(found, name)
	}
	return found
}

// inWord tells whether a character before an @, or behind the dot behind a name, makes
// one word of both. Other scripts than this need no space before a name.
func inWord(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || strings.ContainsRune("@._-+/\\", r)
}

// goesOn tells whether what stands behind a name makes it part of a longer word: a
// host, an address, a path.
func goesOn(rest string) bool {
	if len(rest) > 1 && rest[0] == '.' {
		return rest[1] != '.' && inWord(rune(rest[1]))
	}
	return rest != "" && strings.ContainsRune("@/\\", rune(rest[0]))
}
