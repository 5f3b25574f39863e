package agents

import (
	"fmt"
	"testing"

	"mbox/mailbox"
)

// An answer counts for the tool that its question names, and an answer to one that
// names none, as an earlier mbox asked, for nothing.
func TestAnswersNameTheirTool(t *testing.T) {
	const request = `{"path":"a.md","content":"x"}`
	sum, err := sumOf("write_file", []byte(request))
	if err != nil {
		t.Fatal(err)
	}
	other, err := sumOf(Permission, []byte(request))
	if err != nil || other == sum {
		t.Fatal(other, err)
	}
	for params, want := range map[string]int{
		fmt.Sprintf(`{"tool":"write_file","title":"x","request":%s,"sha256":%q}`, request, sum):                                             1,
		fmt.Sprintf(`{"tool":"permission","title":"x","request":%s,"sha256":%q}`, request, sum):                                             0,
		fmt.Sprintf(`{"title":"x","request":%s,"sha256":%q}`, request, sum):                                                                 0,
		`{"title":"x","request":{},"sha256":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}`:                     0,
		`{"tool":"","title":"x","request":{},"sha256":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}`:           0,
		`{"tool":"write_file","title":"x","request":{},"sha256":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}`: 0,
	} {
		for _, state := range []mailbox.State{mailbox.Completed, mailbox.Failed} {
			got := &terms{yes: map[string]int{}, no: map[string]bool{}}
			child := &mailbox.Task{
				Source: mailbox.Source{Agent: "claude"}, Assignment: mailbox.Assignment{TargetAgent: "claude"},
				Mbox: mailbox.Meta{Action: &mailbox.Action{Name: Permission, Params: []byte(params)}},
			}
			child.Result.Output = []byte(granted)
			got.take(child, state, "claude")
			if n := len(got.yes) + len(got.no); n != want || want == 1 && got.yes[sum] == 0 && !got.no[sum] {
				t.Errorf("%s, %s: %v %v", params, state, got.yes, got.no)
			}
		}
	}
}
