package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"mbox/mailbox"
	"mbox/mailbox/task"
	"mbox/schemas"
)

func failVerb() *verb {
	var h holder
	var f mailbox.Failure
	return &verb{
		name: "fail", args: "ID", least: 1, most: 1,
		brief: "say that the work failed",
		about: `Ends this attempt. The task goes back to pending and is tried again after a
pause that doubles, until its attempts are used up; then, or at once with
--final, it goes to failed.`,
		shows: []string{
			`mbox fail "$id" --reason "the compiler crashed" --code exec_failed`,
			`mbox fail "$id" --reason "there is no such repository" --final`,
		},
		exits: holderExits,
		flags: slices.Concat(h.flags(), flags(
			textFlag("reason", "what went wrong: `TEXT`, needed", &f.Message),
			textFlag("code", "a stable `NAME` of it, in lower case (failed)", &f.Code),
			boolFlag("final", "trying again would not help", &f.Final),
		)),
		run: func(ctx context.Context, s *session, args []string) error {
			if f.Message == "" {
				return usagef("mbox fail "+schemas.ShellWord(args[0])+` --reason "what went wrong"`, "fail needs --reason")
			}
			f.Code = cmp.Or(f.Code, "failed")
			return h.act(ctx, s, "fail", args[0], func(_ *mailbox.Box, c *mailbox.Claim) error {
				return h.hintCode(c.Fail(ctx, f), f, args[0])
			})
		},
		words: tasksThatAre(mailbox.InProgress),
	}
}

// hintCode names the flag of what is no code of a failure, and makes one of it.
func (h *holder) hintCode(err error, f mailbox.Failure, id string) error {
	var bad *schemas.Error
	if !errors.As(err, &bad) || bad.Path != "code" {
		return err
	}
	named := *bad
	named.Path = "--code"
	one := strings.Trim(strings.Map(func(r rune) rune {
		if task.CheckCode("a"+string(r)) != nil {
			return '_'
		}
		return r
	}, strings.ToLower(f.Code)), "_.-")
	if one = one[:min(len(one), 64)]; task.CheckCode(one) != nil {
		one = "exec_failed"
	}
	again := fmt.Sprintf(`mbox fail %s --code %s --reason %s`, schemas.ShellWord(id), one, schemas.ShellWord(clean(f.Message, maxLine)))
	if f.Final {
		again += " --final"
	}
	if h.token != os.Getenv("MBOX_TOKEN") {
		again += " --token TOKEN"
	}
	return hint(&named, "%s", again)
}
