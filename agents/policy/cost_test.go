package policy

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// mostTime is what one decision may take of the processor's time: ten times what
// it does take at the most, for a machine that is slow or busy.
const mostTime = 2 * time.Second

// quick fails if a decision takes long.
func quick(t testing.TB, text string, decide func()) {
	t.Helper()
	begun := used(t)
	decide()
	if took := used(t) - begun; took > mostTime {
		t.Errorf("%d bytes took %v: %.200q", len(text), took, text)
	}
}

// used is the processor's time of this process.
func used(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// The longest lines that are hard to take apart, or to decide on.
func TestCommandCost(t *testing.T) {
	_, policies := commandPolicies(t)
	repeat := func(part string) string { return strings.Repeat(part, maxLine/len(part)) }
	for _, line := range []string{
		repeat("ls;"), repeat("/a/b;"), repeat("./a|"), repeat("a<b "), repeat("a >b;"), repeat("a=b "), repeat("("), repeat("$("), repeat("`"),
		repeat("`ls`"), repeat("${a}"), repeat("env "), repeat("nice -n 1 "), repeat("find -exec ls ';' "), repeat("sh -c "), repeat("git -c "),
		repeat("~/a;"), repeat("/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p;"), "ls " + repeat("a/"), repeat("\\\n"), repeat("\"$(ls)\""),
		strings.Repeat("sh -c '", 3) + repeat("ls;"), "ls >" + repeat("a/"), "/" + repeat("a/") + "b",
	} {
		for _, p := range policies {
			quick(t, line, func() { _, _ = p.Command(line) })
		}
	}
	for _, path := range []string{strings.Repeat("a/", 1<<20), strings.Repeat("..%2", 1<<18), "~/" + strings.Repeat("%252f", 1<<18)} {
		quick(t, path, func() { _, _ = policies["free"].Read(path) })
	}
}
