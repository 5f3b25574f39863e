package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
)

// What a package allocates before main begins, every command pays for. Counted
// are allocations and bytes, which are the same on every machine; the times are
// only told. pgconn takes 150 of the allocations and 22 KiB, for tables of letters and
// buffers, which nobody can put off; all of pgx would take 50 more, and 3 MB of program.
const (
	mostPackageAllocs, mostPackageBytes = 400, 128 << 10
	mostStartAllocs, mostStartBytes     = 3480, 490 << 10
)

var initLine = regexp.MustCompile(`(?m)^init (\S+) @\S+ ms, (\S+) ms clock, (\d+) bytes, (\d+) allocs$`)

func TestStartup(t *testing.T) {
	bin := program(t)
	bytes, allocs := startCosts(t, bin)
	for range 4 { // the runtime allocates a little beside, now more, now less
		b, n := startCosts(t, bin)
		bytes, allocs = min(bytes, b), min(allocs, n)
	}
	if allocs == 0 || allocs > mostStartAllocs || bytes > mostStartBytes {
		t.Errorf("packages begin with %d allocations of %d bytes, at most %d and %d are allowed", allocs, bytes, mostStartAllocs, mostStartBytes)
	}
}

// startCosts is what all packages allocate when the program starts once.
func startCosts(t *testing.T, bin string) (bytes, allocs int) {
	t.Helper()
	run := exec.Command(bin, "version")
	run.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var ms float64
	for _, m := range initLine.FindAllStringSubmatch(string(out), -1) {
		took, _ := strconv.ParseFloat(m[2], 64)
		b, _ := strconv.Atoi(m[3])
		n, _ := strconv.Atoi(m[4])
		if n > mostPackageAllocs || b > mostPackageBytes {
			t.Errorf("%s begins with %d allocations of %d bytes (%.2f ms), at most %d and %d are allowed: do it when it is needed first", m[1], n, b, took, mostPackageAllocs, mostPackageBytes)
		}
		ms, bytes, allocs = ms+took, bytes+b, allocs+n
	}
	t.Logf("packages begin with %d allocations of %d bytes and take %.2f ms", allocs, bytes, ms)
	return bytes, allocs
}
