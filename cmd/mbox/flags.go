package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mbox/cmd/mbox/config"
	"mbox/cmd/mbox/schedule"
	"mbox/schemas"
)

// The flags of a verb write into its options struct, so that actions never see
// cli's context. Each of the types below is a cli.Generic: it reads itself and
// refuses what it cannot be.

func textFlag(name, usage string, to *string) cli.Flag {
	return &cli.StringFlag{Name: name, Usage: usage, Destination: to}
}

// filledFlag is a text that cannot be empty: what is left out of a filter means all, and an
// empty word in a script's line is a variable that nobody has set.
func filledFlag(name, usage string, to *string, also ...string) cli.Flag {
	return &cli.GenericFlag{Name: name, Aliases: also, Usage: usage, Value: filled{to}}
}

type filled struct{ to *string }

func (filled) String() string { return "" }

func (f filled) Set(v string) error {
	if v != "" {
		*f.to = v
		return nil
	}
	return errEmpty
}

var errEmpty = errors.New("want a value that is not empty")

func fileFlag(name, usage string, to *string) cli.Flag {
	return &cli.StringFlag{Name: name, Usage: usage, Destination: to, TakesFile: true}
}

func boolFlag(name, usage string, to *bool) cli.Flag {
	return &cli.BoolFlag{Name: name, Usage: usage, Destination: to}
}

func jsonFlag(to *bool) cli.Flag { return boolFlag("json", "print JSON", to) }

// answer is how a verb of channels and inboxes tells a program what it has to tell.
type answer struct{ json, quiet bool }

// flags are --json and --quiet; quiet says what is printed then.
func (a *answer) flags(quiet string) []cli.Flag {
	return []cli.Flag{jsonFlag(&a.json), boolFlag("quiet", quiet, &a.quiet)}
}

// check refuses both at once.
func (a *answer) check(verb string) error {
	if a.json && a.quiet {
		return usagef("mbox "+verb+" --json", "--json and --quiet do not go together")
	}
	return nil
}

// printIDs prints what --quiet leaves of a list: an id in each line.
func printIDs[T any](s *session, all []T, id func(T) string) error {
	for _, one := range all {
		s.printf("%s\n", clean(id(one), maxLine))
	}
	return nil
}

func valueFlag(name, usage string, to cli.Generic) cli.Flag {
	return &cli.GenericFlag{Name: name, Usage: usage, Value: to}
}

// texts is a flag that may be repeated; none of them is empty.
type texts []string

func (t *texts) String() string { return strings.Join(*t, ", ") }

func (t *texts) Set(v string) error {
	if v == "" {
		return errEmpty
	}
	*t = append(*t, v)
	return nil
}

// labels is a repeated KEY=VALUE.
type labels map[string]string

func (l *labels) Set(v string) error {
	key, value, ok := strings.Cut(v, "=")
	if !ok || key == "" {
		return fmt.Errorf("want KEY=VALUE")
	}
	if _, twice := (*l)[key]; twice {
		return fmt.Errorf("%s is given twice", key)
	}
	if *l == nil {
		*l = labels{}
	}
	(*l)[key] = value
	return nil
}

func (l *labels) String() string { return "" }

// choice is one of a few words.
type choice struct {
	among []string
	value string
}

func oneOf(among ...string) choice { return choice{among: among} }

func (c *choice) String() string { return c.value }

func (c *choice) Set(v string) error {
	for _, a := range c.among {
		if a == v {
			c.value = v
			return nil
		}
	}
	return fmt.Errorf("want one of %s%s", strings.Join(c.among, ", "), schemas.Meant(v, c.among))
}

// choices is a repeated choice, also separated by commas.
type choices struct {
	among  []string
	values []string
}

func (c *choices) String() string { return strings.Join(c.values, ",") }

func (c *choices) Set(v string) error {
	for word := range strings.SplitSeq(v, ",") {
		one := choice{among: c.among}
		if err := one.Set(strings.TrimSpace(word)); err != nil {
			return err
		}
		c.values = append(c.values, one.value)
	}
	return nil
}

// agreed is a flag that is a person's word: alone it is asked for, with a value
// it needs no terminal.
type agreed struct {
	given bool
	value string
}

func (a *agreed) String() string   { return a.value }
func (a *agreed) IsBoolFlag() bool { return true }

func (a *agreed) Set(v string) error {
	if a.given = true; v != "true" { // what the flag alone is
		a.value = v
	}
	return nil
}

// number is an integer within bounds that knows whether it was given.
type number struct {
	min, max int
	value    *int
}

func (n *number) String() string {
	if n.value == nil {
		return ""
	}
	return strconv.Itoa(*n.value)
}

func (n *number) Set(v string) error {
	i, err := strconv.Atoi(v)
	if err != nil || i < n.min || i > n.max {
		return fmt.Errorf("want a whole number from %d to %d", n.min, n.max)
	}
	n.value = &i
	return nil
}

// moment is a point in time as schedule.Clock reads it, on this machine's clock, or a
// duration from now, which lies ahead or, for past, behind.
type moment struct {
	past bool
	at   time.Time
}

func (m *moment) String() string {
	if m.at.IsZero() {
		return ""
	}
	return m.at.Format(time.RFC3339)
}

func (m *moment) Set(v string) error {
	if at, fixed, err := schedule.Clock(v); err == nil {
		if m.at = at; !fixed {
			m.at = schedule.Instant(at, time.Local).Local()
		}
		return nil
	}
	d, err := config.ParseDuration(v)
	if err != nil {
		return fmt.Errorf(`want a time such as "2026-02-16 10:30" or "2026-02-16T10:30:00Z", a date, or a duration such as 2h or 7d`)
	}
	if m.past {
		d = -d
	}
	m.at = time.Now().Add(d)
	return nil
}

// passed tells whether it was given and lies in the past.
func (m *moment) passed() bool { return !m.at.IsZero() && !m.at.After(time.Now()) }

// refused is the error of a deadline that has passed.
func (m *moment) refused() error {
	return usagef("a --deadline that lies ahead", "--deadline %s has passed", m)
}

func flags(f ...cli.Flag) []cli.Flag { return f }

// length is a Duration that knows whether it was given.
type length struct {
	config.Duration
	given bool
}

// Set makes a length a flag.
func (l *length) Set(v string) error {
	l.given = true
	return l.Duration.Set(v)
}

// limitFlag is --limit, or -n.
func limitFlag(usage string, to *number) cli.Flag {
	return &cli.GenericFlag{Name: "limit", Aliases: []string{"n"}, Usage: usage, Value: to}
}
