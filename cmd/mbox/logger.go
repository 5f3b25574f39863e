package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"mbox/schemas"
)

// What is told on stderr besides data and errors. One-shot commands say little
// and in sentences; workers write zerolog's events, shown to people here and
// kept in the agents' own logs.

var levels = []string{"debug", "info", "warn", "error"}

func (s *session) logs(level string) bool {
	for _, l := range levels {
		if l == s.level.value {
			return true
		}
		if l == level {
			return false
		}
	}
	return false
}

func (s *session) debugf(format string, a ...any) { s.log("debug", s.tells.dim, format, a...) }
func (s *session) infof(format string, a ...any)  { s.log("info", plain, format, a...) }
func (s *session) warnf(format string, a ...any)  { s.log("warn", s.tells.yellow, format, a...) }

func (s *session) log(level string, colour paint, format string, a ...any) {
	if s.logs(level) {
		s.endProgress()
		format = proposals(strings.ReplaceAll(string(s.proposes), "%", "%%")).named(format)
		fmt.Fprintln(s.err, colour("mbox: "+clean(schemas.LocalTimes(fmt.Sprintf(format, a...)), maxLine)))
	}
}

// done tells a person what has happened. A script sees the exit code.
func (s *session) done(format string, a ...any) {
	if s.people {
		s.infof(format, a...)
	}
}

// told tells a program, that has asked for JSON, or a person what has happened.
func (s *session) told(inJSON bool, line any, format string, a ...any) error {
	if inJSON {
		return s.printLine(line)
	}
	s.done(format, a...)
	return nil
}

// logger is where workers tell what they do.
func (s *session) logger() zerolog.Logger {
	level, err := zerolog.ParseLevel(s.level.value)
	if err != nil {
		level = zerolog.InfoLevel
	}
	out := zerolog.ConsoleWriter{Out: s.err, NoColor: !s.tells.on, TimeFormat: time.DateTime}
	return zerolog.New(out).Level(level).With().Timestamp().Logger()
}
