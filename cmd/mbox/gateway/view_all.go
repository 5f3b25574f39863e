package gateway

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"mbox/mailbox"
	"mbox/schemas"
)

// mostChosen is for how many tasks something may be done at a time, and longAtOnce how long
// that may take; then the person is asked to go on.
const (
	mostChosen = 10_000
	longAtOnce = 20 * time.Second
)

// question is what is asked before something is done with all tasks that match.
type question struct {
	Name, Done, About, Key, Back string
	Count, Rest                  int
	Cut                          bool // more than mostChosen match
	First                        []*mailbox.Task
}

// choose shows how many tasks match, and keeps which.
func (v view) choose() error {
	f, err := v.fields()
	if err != nil {
		return err
	}
	deed, known := deeds()[f["verb"]]
	if !known || deed.on == nil {
		return badRequest(schemas.Quote(f["verb"])+" is nothing that can be done with many tasks", "the list of tasks shows what can")
	}
	delete(f, "verb")
	if err := v.filterBy(f); err != nil {
		return err
	}
	text, _ := secret()
	q := question{Name: deed.Name, Done: deed.done, About: deed.About, Key: text, Back: v.link("/list", nil)}
	all, err := v.matching(&q, deed.on)
	if err != nil {
		return err
	}
	q.Count, q.Rest = len(all), len(all)-len(q.First)
	v.door.sessions.choose(v.seat, &chosen{key: text, verb: deed.Verb, tasks: all})
	return v.still("confirm", "/list", deed.Name, q)
}

// filterBy takes the filter of the list from a form, by the rules of the list's address.
func (v view) filterBy(fields map[string]string) error {
	routes := pageRoutes()
	list := routes[slices.IndexFunc(routes, func(r route) bool { return r.path == "/list" })]
	query := v.r.URL.Query()
	for name, value := range fields {
		query.Set(name, value)
	}
	r := v.r.Clone(v.ctx)
	r.URL.RawQuery = query.Encode()
	read, err := list.read(r)
	v.query = read
	return err
}

// matching are the tasks in the states that a verb fits.
func (v view) matching(q *question, states []mailbox.State) (found []picked, err error) {
	f, err := v.filter()
	if err != nil {
		return nil, err
	}
	f.States = slices.DeleteFunc(slices.Clone(f.States), func(s mailbox.State) bool { return !slices.Contains(states, s) })
	if len(f.States) == 0 {
		return nil, nil
	}
	if err := v.door.listing.take(v.ctx); err != nil {
		return nil, err
	}
	defer v.door.listing.leave()
	const shownFirst = 10
	for it, err := range v.Box.List(v.ctx, f) {
		if err != nil {
			return nil, err
		}
		if it.Err != nil {
			continue
		}
		if yes, err := v.fits(it.Task); err != nil {
			return nil, err
		} else if !yes {
			continue
		}
		if len(found) == mostChosen {
			q.Cut = true
			break
		}
		if found = append(found, picked{it.Task.ID, seenAs(it.State, it.Task)}); len(q.First) < shownFirst {
			q.First = append(q.First, it.Task)
		}
	}
	return found, nil
}

// report is what was done with all of them.
type report struct {
	Done, Key, Reason       string
	Count, Left, MoreFailed int
	Failed                  []string
}

// decideAll does what was asked about with the tasks whose number was shown, once. One that
// cannot be done holds up none of the others.
func (v view) decideAll() error {
	f, err := v.fields()
	if err != nil {
		return err
	}
	o := anyOrder{Reason: f["reason"]}
	if err := o.check(); err != nil {
		return err
	}
	c := v.door.sessions.take(v.seat, f["key"])
	if c == nil {
		return &refusal{409, "this was done already, or something else was asked for since", "ask again from the list of tasks"}
	}
	deed := deeds()[c.verb]
	r := report{Done: deed.done, Reason: o.Reason}
	until := time.Now().Add(longAtOnce)
	for len(c.tasks) > 0 && time.Now().Before(until) && v.ctx.Err() == nil {
		id := c.tasks[0].id
		o.Seen = c.tasks[0].seen
		c.tasks = c.tasks[1:]
		err := o.check()
		if err == nil {
			_, err = v.decide(deed.do, id, o)
		}
		if err == nil {
			r.Count++
		} else if len(r.Failed) < 20 {
			r.Failed = append(r.Failed, fmt.Sprintf("%s: %s", id, schemas.Sentence(strings.TrimPrefix(err.Error(), "task "+string(id)+": "), maxDetail)))
		} else {
			r.MoreFailed++
		}
	}
	if r.Left = len(c.tasks); r.Left > 0 {
		c.key, _ = secret()
		r.Key = c.key
		v.door.sessions.choose(v.seat, c)
	}
	return v.still("did", "/list", "Done", r)
}
