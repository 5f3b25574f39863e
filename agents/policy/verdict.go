package policy

import (
	"path/filepath"
	"slices"
	"strings"

	"mbox/schemas"
)

// verdict draws the sum of what the judge has found, and refuses by the first
// rule that says so.
func (j *judge) verdict(line string) (Verdict, error) {
	err := j.redirections()
	v := Verdict{Segments: j.segments}
	for _, s := range j.segments {
		v.Risk = max(v.Risk, s.Risk)
	}
	if j.unclear != "" {
		v.Risk = High
	}
	if rule, what, why := j.refused(v.Risk); rule != "" {
		return v, j.policy.denyCommand(rule, line, what, why)
	}
	if err != nil {
		return v, err
	}
	v.NeedsApproval = j.policy.Level == Supervised &&
		(v.Risk == High || v.Risk == Medium && j.policy.RequireMediumApproval)
	return v, nil
}

// refused gives the first rule that a line breaks, the command that breaks it,
// and what is the matter with it.
func (j *judge) refused(risk Risk) (rule, command, why string) {
	p := j.policy
	all := slices.Contains(p.AllowedCommands, "*")
	switch {
	case j.unclear != "" && (p.BlockHighRisk || !all):
		return ruleCommandUnclear, "", j.unclear
	case len(j.segments) == 0 && j.unclear == "":
		return ruleCommandEmpty, "", ""
	}
	for _, s := range j.segments {
		switch {
		case s.Command == ">":
		case s.Risk == High && p.BlockHighRisk && !j.exactly(s.Command):
			return ruleCommandHigh, s.Command, s.Why
		case all || j.exactly(s.Command):
		case slices.Contains(p.AllowedCommands, filepath.Base(s.Command)):
			return ruleCommandOwn, s.Command, ""
		default:
			return ruleCommandNotAllowed, s.Command, ""
		}
	}
	if p.Level == Supervised || p.Level == Full {
		return "", "", ""
	}
	return j.writes(risk)
}

// writes tells what an agent that only reads may not run.
func (j *judge) writes(risk Risk) (rule, command, why string) {
	if j.unclear != "" {
		return ruleCommandReadOnly, "", j.unclear
	}
	for i, s := range j.segments {
		if s.Risk > Low || !onlyReads(s.Command, j.words[i]) || j.policy.own(s.Command) {
			return ruleCommandReadOnly, s.Command, s.Why
		}
	}
	return "", "", ""
}

// redirections asks for the files that redirections open, and counts those that
// are written as medium risk.
func (j *judge) redirections() error {
	for _, w := range slices.Concat(j.outs, j.ins) {
		switch {
		case !w.fixed():
			j.giveUp("the file of a redirection is made at run time")
		case j.moves && !strings.HasPrefix(w.text, "/"):
			j.giveUp("the file of a redirection lies in a folder that changes")
		case strings.HasPrefix(w.text, "/dev/tcp/") || strings.HasPrefix(w.text, "/dev/udp/"):
			j.giveUp("a redirection opens a connection")
		}
	}
	if j.crowded() || j.unclear != "" {
		return nil // refused, or taken as it is
	}
	for _, w := range j.ins {
		if _, err := j.policy.Read(w.file()); err != nil {
			return err
		}
	}
	for _, w := range j.outs {
		if slices.Contains([]string{nullDevice, "/dev/stdout", "/dev/stderr"}, w.text) {
			continue
		}
		j.add(">", []word{w}, Medium, "it writes "+schemas.Quote(w.text))
		if _, err := j.policy.Write(w.file()); err != nil {
			return err
		}
	}
	return nil
}

// file is the name that a word has for a file: a quoted ~ is no home.
func (w word) file() string {
	if strings.HasPrefix(w.text, "~") && w.plain == 0 {
		return "./" + w.text
	}
	return w.text
}

func (p *Policy) denyCommand(rule, line, command, why string) *Denied {
	key := "risk_profiles." + p.RiskProfileName
	name := schemas.Sentence(command, 80)
	d := &Denied{Rule: rule, What: "run " + schemas.Quote(line)}
	switch rule {
	case ruleCommandEmpty:
		d.Why, d.Hint = "there is no command in it", "name one of "+key+".allowed_commands in mbox.toml"
	case ruleCommandUnclear:
		d.Why = "it cannot be told what runs: " + why
		d.Hint = "write plain commands; only * in " + key + ".allowed_commands with block_high_risk_commands = false in mbox.toml allows the rest"
	case ruleCommandHigh:
		d.Why, d.Hint = why, "name "+name+" itself (not *) in "+key+".allowed_commands in mbox.toml"
	case ruleCommandOwn:
		d.Why, d.Hint = "it is not the program that PATH leads to, or the agent could put another one there", "name the whole path in "+key+".allowed_commands in mbox.toml"
	case ruleCommandReadOnly:
		d.Why, d.Hint = "the agent's level lets it only read", "set "+key+`.level = "supervised" in mbox.toml`
		if name != "" {
			d.Why += ", and " + name + " may write"
		}
	default:
		d.Why, d.Hint = name+" is not among the allowed commands", "name it in "+key+".allowed_commands in mbox.toml"
	}
	d.Why = schemas.Sentence(d.Why, 300)
	return d
}
