package action

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/agents/policy"
	"mbox/schemas"
)

func TestDelegateValid(t *testing.T) {
	for params, inner := range map[string]string{
		`{"role":"coder","title":"x"}`: "",
		`{"role":"coder","title":"x","description":"y","name":"a.b","after":["t-1"],"join":"quorum"}`:        "",
		`{"role":"coder","task":"write_file","payload":{"path":"a.txt","content":"x"}}`:                      "write_file",
		`{"role":"c","task":"write_file","payload":{"path":"a.txt","content":"x"},"title":"x","join":"all"}`: "write_file",
		`{"role":"a","task":"delegate","payload":{"role":"b","task":"file_check","payload":{"path":"a"}}}`:   "delegate",
		nested(3): "delegate",
	} {
		d, ok := parsed(t, "delegate", params).(*Delegate)
		if !ok {
			t.Fatalf("%s is no *Delegate", params)
		}
		if err := d.Validate(Limits{}); err != nil {
			t.Errorf("%s: %v", params, err)
		}
		if got := d.Inner(); got == nil && inner != "" || got != nil && got.Name() != inner {
			t.Errorf("%s hands on %v", params, got)
		}
	}
}

// nested is n delegations in one another.
func nested(n int) string {
	if n == 1 {
		return `{"role":"a","title":"x"}`
	}
	return `{"role":"a","task":"delegate","payload":` + nested(n-1) + `}`
}

func TestDelegateRefuses(t *testing.T) {
	for _, c := range []struct{ params, path, code string }{
		{`{"title":"x"}`, "params.role", schemas.CodeMissingField},
		{`{"role":"Coder","title":"x"}`, "params.role", schemas.CodeBadValue},
		{`{"role":"../x","title":"x"}`, "params.role", schemas.CodeBadValue},
		{`{"role":"bridge:x","title":"x"}`, "params.role", schemas.CodeBadValue},
		{`{"role":"coder"}`, "params.title", schemas.CodeMissingField},
		{`{"role":"coder","title":"x","payload":{}}`, "params.payload", schemas.CodeBadValue},
		{`{"role":"coder","task":"write_file"}`, "params.payload", schemas.CodeMissingField},
		{`{"role":"coder","task":"write_file","payload":{"path":"a.txt"}}`, "params.payload.content", schemas.CodeMissingField},
		{`{"role":"coder","task":"write_file","payload":{"path":"../a.txt","content":""}}`, "params.payload.path", schemas.CodeBadValue},
		{`{"role":"coder","task":"write_file","payload":{"path":"a.py","content":""}}`, "params.payload.path", schemas.CodeBadValue},
		{`{"role":"a","task":"delegate","payload":{"role":"b","task":"file_check","payload":{"path":"../x"}}}`, "params.payload.payload.path", schemas.CodeBadValue},
		{`{"role":"a","task":"delegate","payload":{"role":"b"}}`, "params.payload.title", schemas.CodeMissingField},
		{nested(4), "params.payload.payload.task", schemas.CodeTooDeep},
		{`{"role":"coder","title":"x","name":"a b"}`, "params.name", schemas.CodeBadValue},
		{`{"role":"coder","title":"x","after":["-"]}`, "params.after[0]", schemas.CodeBadValue},
		{`{"role":"coder","title":"x","after":["a","a"]}`, "params.after[1]", schemas.CodeBadValue},
		{`{"role":"coder","title":"x","name":"a","after":["a"]}`, "params.after[0]", schemas.CodeBadValue},
		{`{"role":"coder","title":"x","join":"some"}`, "params.join", schemas.CodeBadValue},
		{`{"role":"coder","title":"x","depth":0}`, "params.depth", schemas.CodeUnknownField},
		{`{"role":"coder","title":"` + strings.Repeat("x", 501) + `"}`, "params.title", schemas.CodeTooLong},
	} {
		a, err := Parse("delegate", jsontext.Value(c.params))
		if err == nil {
			err = a.Validate(Limits{})
		}
		wantFault(t, c.params, err, c.path, c.code, "")
	}
}

// A delegation that did not come through Parse has no checked payload.
func TestDelegateUnparsed(t *testing.T) {
	d := &Delegate{Role: "coder", Task: "write_file", Payload: jsontext.Value(`{}`)}
	wantFault(t, "unparsed", d.Validate(Limits{}), "params.task", schemas.CodeBadValue, "")
}

func TestDelegatePermit(t *testing.T) {
	p := &policy.Policy{Delegates: []string{"coder"}}
	if err := (&Delegate{Role: "coder"}).Permit(p); err != nil {
		t.Error(err)
	}
	for _, role := range []string{"deployer", ""} {
		if d := refusal((&Delegate{Role: role}).Permit(p)); d == nil || d.Rule != "delegate_not_allowed" {
			t.Errorf("%q: %v", role, d)
		}
	}
}

func TestDelegateIsTheMailboxs(t *testing.T) {
	if _, err := (&Delegate{}).Do(t.Context(), &Env{}); err == nil || err.Error() != "delegate is carried out by the mailbox" {
		t.Error(err)
	}
}
