package check

import (
	"strings"
	"testing"
)

// What a delegation would be refused for is told before, and nothing else is.
func TestDoctorRights(t *testing.T) {
	for _, c := range []struct{ config, want string }{
		{"", ""},
		{"[agents.coder]\nexec = 'true'", "coordinator cannot hand work to coder: its exec is true"},
		{"[agents.coder]\nexec = 'true'\nsandbox = 'landlock'", ""},
		{"[agents.coder]\nexec = 'true'\nenabled = false", ""},
		{"[risk_profiles.coordinator]\nalways_ask = ['write_file']", "its always_ask is []"},
	} {
		e := &Exam{Config: read(t, c.config)}
		e.rights()
		text := ""
		for _, f := range e.Findings {
			text += f.Text + "\n" + f.Hint + "\n"
		}
		if (text == "") != (c.want == "") || !strings.Contains(text, c.want) {
			t.Errorf("%q:\n%s\nwant %q", c.config, text, c.want)
		}
	}
}
