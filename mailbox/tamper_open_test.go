package mailbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mbox/audit"
)

// chainAnew writes checksums and prevs anew from the first line on, with the
// agents' copies, and blanks the head record and that of the copies: what one does who holds the whole
// home and knows the format.
func (v *vandal) chainAnew(days [][]string) {
	version := v.read(".mbox/VERSION")
	_, id, _ := strings.Cut(version, `"mailbox_id": "`)
	id, _, _ = strings.Cut(id, `"`)
	prev, seq := audit.Genesis(id), int64(0)
	copies := map[string]string{}
	for _, name := range v.copies() {
		v.must(os.Remove(v.path(name)))
	}
	for d, lines := range days {
		var out strings.Builder
		for _, line := range lines {
			seq++
			body := line[:len(line)-87]
			at := strings.LastIndex(body, `,"prev":"`)
			rest := body[at+len(`,"prev":"`)+71+len(`","seq":`):]
			rest = rest[strings.IndexByte(rest, ','):]
			body = fmt.Sprintf(`%s,"prev":"%s","seq":%d%s}`, body[:at], prev, seq, rest)
			prev = audit.Hash([]byte(body))
			line = body[:len(body)-1] + `,"checksum":"` + prev + "\"}\n"
			out.WriteString(line)
			copies["audit/"+audit.Folder(audit.Line{Raw: []byte(line)}.Agent())+"/"+filepath.Base(v.days[d])] += line
		}
		v.write(v.days[d], out.String())
	}
	for name, text := range copies {
		v.write(name, text)
	}
	v.write(".mbox/locks/chain", "")
	v.write(".mbox/locks/copies", "")
}

// unshown are the kinds of damage that a plain chain cannot show, since nothing
// outside the home knows how it was. They are open, and mbox help ledger says so.
// Whoever keeps the last checksum that verify printed elsewhere sees each of
// them: that seq has another checksum then, or none.
var unshown = []struct {
	name string
	do   func(v *vandal) (done bool)
}{
	{"rehash from a point on", func(v *vandal) bool {
		days, l := v.ledger(), v.anyLine()
		line := days[l.day][l.index]
		days[l.day][l.index] = strings.Replace(line, `{"action":"`, `{"action":"never `, 1)
		v.chainAnew(days)
		return true
	}},
	{"a task that never was", func(v *vandal) bool {
		file, id, _ := v.taskFile(taskFolders[:4]...)
		return v.forget(file, `"task_id":"`+string(id)+`"`)
	}},
	{"cut and rehash", func(v *vandal) bool { // lines that moved no task, from the end
		days := v.ledger()
		newest := days[len(days)-1]
		for i := len(newest) - 1; i > 0; i-- {
			if strings.Contains(newest[i], `"event":"decision"`) && !strings.Contains(newest[i], `"before"`) {
				_, file, _ := strings.Cut(newest[i], `"file":"`)
				file, _, _ = strings.Cut(file, `"`)
				return v.forget(file, `"file":"`+file+`"`)
			}
		}
		return false
	}},
}

// forget removes all lines with a text, and a file.
func (v *vandal) forget(file, text string) bool {
	days := v.ledger()
	for d := range days {
		days[d] = slices.DeleteFunc(days[d], func(line string) bool { return strings.Contains(line, text) })
	}
	for _, lease := range v.files(".mbox/leases/" + strings.TrimSuffix(filepath.Base(file), "json")) {
		v.must(os.Remove(v.path(lease)))
	}
	for _, entry := range v.files("tasks/quarantine/" + filepath.Base(file)) {
		v.must(os.Remove(v.path(entry)))
	}
	v.must(os.Remove(v.path(file)))
	v.chainAnew(days)
	return true
}

// TestTamperingUnshown holds what is known to be open: verify is silent, and
// the checksum that it printed before tells.
func TestTamperingUnshown(t *testing.T) {
	v := newVandal(t, seedOf(t))
	before := v.verify()
	for _, kind := range unshown {
		t.Run(kind.name, func(t *testing.T) {
			v.t = t
			for range 10 {
				if !kind.do(v) {
					t.Fatal("there was nothing to do")
				}
				if r := v.verify(); len(r.Findings) > 0 {
					t.Fatalf("verify shows it now: take it out of the list, and out of mbox help ledger: %v", r.Findings)
				} else if r.Checksum == before.Checksum {
					t.Error("the last checksum is the same")
				}
				v.restore()
			}
		})
	}
	t.Run("whole-tree rollback", func(t *testing.T) {
		v.t = t
		old := v.clean
		b := v.open()
		v.submit(b, "later")
		v.must(b.Close())
		after := v.verify()
		v.clean = old
		v.wrote = map[string]bool{}
		for _, name := range v.files("") {
			v.wrote[name] = true
		}
		v.restore()
		if r := v.verify(); len(r.Findings) > 0 {
			t.Fatalf("verify shows it now: %v", r.Findings)
		} else if r.Seq >= after.Seq || r.Checksum != before.Checksum {
			t.Error("the rollback is none")
		}
	})
}
