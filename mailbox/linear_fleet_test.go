package mailbox

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/anishathalye/porcupine"
	"golang.org/x/sys/unix"

	"mbox/mailbox/durable"
)

// orders are what a client process is told.
type orders struct {
	Home   string `json:"home"`
	Dir    string `json:"dir"`    // for the histories and the counter of calls
	Number int    `json:"number"` // of the process
	Calls  int    `json:"calls"`  // that all processes make together
	Seed   uint64 `json:"seed"`
}

// asClient is the variable that makes the test binary a client process.
const asClient = "MBOX_TEST_LINEAR_CLIENT"

func (o orders) historyOf(goroutine int) string {
	return filepath.Join(o.Dir, fmt.Sprintf("history-%d-%d", o.Number, goroutine))
}

func (o orders) tasks() int { return max(1, o.Calls/callsPerTask) }

// counter is a number that all processes share: the calls made so far. It keeps
// them at the same tasks at the same time.
func (o orders) counter() (*atomic.Int64, error) {
	f, err := os.OpenFile(filepath.Join(o.Dir, "counter"), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := unix.Mmap(int(f.Fd()), 0, 8, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*atomic.Int64)(unsafe.Pointer(&m[0])), nil
}

// monotonic is a time that all processes of the machine agree on.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// fleet is the client processes of one history.
type fleet struct {
	*testing.T
	orders
	counter *atomic.Int64
	wanted  int // processes at a time
	all     []*ship
	sunk    chan *ship
	killed  int
	random  *rand.Rand
}

// ship is one client process.
type ship struct {
	orders
	cmd    *exec.Cmd
	said   bytes.Buffer
	err    error
	killed int64 // when it was killed; 0 if it was not
}

func newFleet(t *testing.T, calls, processes int, seed uint64) *fleet {
	b := newBox(t, Options{MaxAttempts: linearAttempts})
	f := &fleet{T: t, wanted: processes, sunk: make(chan *ship)}
	f.orders = orders{Home: b.Home(), Dir: t.TempDir(), Calls: calls, Seed: seed}
	f.random = rand.New(rand.NewPCG(seed, math.MaxUint64))
	must(t, os.WriteFile(filepath.Join(f.Dir, "counter"), make([]byte, 8), 0o600))
	var err error
	f.counter, err = f.orders.counter()
	must(t, err)
	return f
}

// sail runs the processes until all calls are made, and kills one every 20 to
// 150 ms: few kills meet a transition half done. A killed one is replaced.
func (f *fleet) sail() {
	f.Helper()
	running := map[*ship]bool{}
	for range f.wanted {
		running[f.launch()] = true
	}
	defer func() {
		for s := range running {
			_ = s.cmd.Process.Kill()
			<-f.sunk
		}
	}()
	for len(running) > 0 && !f.Failed() {
		pause := time.NewTimer(time.Duration(20+f.random.IntN(130)) * time.Millisecond)
		select {
		case s := <-f.sunk:
			delete(running, s)
			f.judge(s)
			if s.killed != 0 && f.counter.Load() < int64(f.Calls) {
				running[f.launch()] = true
			}
		case <-pause.C:
			for s := range running { // any
				if s.killed == 0 && f.counter.Load() < int64(f.Calls) {
					s.killed = monotonic()
					_ = s.cmd.Process.Kill()
				}
				break
			}
		}
		pause.Stop()
	}
}

func (f *fleet) launch() *ship {
	f.Helper()
	s := &ship{orders: f.orders}
	s.Number = len(f.all)
	text, err := json.Marshal(s.orders)
	must(f, err)
	s.cmd = exec.Command(os.Args[0])
	s.cmd.Env = append(os.Environ(), asClient+"="+string(text), "GOCOVERDIR=")
	s.cmd.Stderr = &s.said
	must(f, s.cmd.Start())
	f.all = append(f.all, s)
	go func() { s.err = s.cmd.Wait(); f.sunk <- s }()
	return s
}

// judge wants a process to have ended well, or by our SIGKILL.
func (f *fleet) judge(s *ship) {
	f.Helper()
	status := s.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case s.err == nil:
		s.killed = 0 // it was through before the kill came
	case s.killed != 0 && status.Signaled() && status.Signal() == syscall.SIGKILL:
		f.killed++
	default:
		f.Errorf("client %d: %v\n%s", s.Number, s.err, s.said.Bytes())
	}
}

// history reads what the processes wrote down.
func (f *fleet) history() (all []porcupine.Operation) {
	f.Helper()
	for _, s := range f.all {
		for g := range clientsOfProcess {
			ops, err := s.read(g)
			must(f, err)
			all = append(all, ops...)
		}
	}
	return all
}

const never = math.MaxInt64

// read makes operations of one client's records. A call without an answer stays
// open for ever. So does the end of a claim that lasts as long as its process,
// unless a verb has ended it before.
func (s *ship) read(goroutine int) (ops []porcupine.Operation, err error) {
	file, err := os.Open(s.historyOf(goroutine))
	if os.IsNotExist(err) {
		return nil, nil // killed before its first call
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	client := s.Number*clientsOfProcess + goroutine
	kept := map[string]call{} // process claims by token
	open := false
	in := bufio.NewReader(file)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			break // what has no newline was not finished when the process died
		}
		r, at, err := readRecord(line)
		if err != nil {
			return nil, fmt.Errorf("client %d: %q: %w", client, line, err)
		}
		switch {
		case r.kind == "call":
			if r.in.verb == "claim" {
				r.in.token = fmt.Sprintf("?%d:%d", client, at)
			}
			ops = append(ops, porcupine.Operation{ClientId: client, Input: r.in, Call: at, Output: answer{said: unheard}, Return: never})
			open = r.in.verb != "let go"
			if r.in.verb == "let go" {
				delete(kept, r.in.token)
			}
		case r.kind == "answer":
			op := &ops[len(ops)-1]
			op.Output, op.Return, open = r.out, at, false
			in := op.Input.(call)
			if in.verb == "claim" && in.process && r.out.said == "ok" {
				kept[r.out.token] = call{id: in.id, verb: "let go", token: r.out.token}
			} else if r.out.said == "ok" && in.verb != "progress" {
				delete(kept, in.token)
			}
		}
	}
	if s.killed == 0 {
		return ops, nil
	}
	if open {
		if in := ops[len(ops)-1].Input.(call); in.verb == "claim" && in.process {
			kept[in.token] = call{id: in.id, verb: "let go", token: in.token}
		}
	}
	for _, c := range kept {
		ops = append(ops, porcupine.Operation{ClientId: client, Input: c, Call: s.killed, Output: answer{said: unheard}, Return: never})
	}
	return ops, nil
}

// A client writes one line before each call and one after:
//
//	call TIME VERB ID TOKEN PROCESS
//	answer TIME SAID TOKEN STATE EPOCH ATTEMPT
//
// with - for what there is not, and + for blanks.
type clientRecord struct {
	kind string
	in   call
	out  answer
}

func callLine(c call) string {
	return fmt.Sprintf("call %d %s %s %s %t\n", monotonic(), strings.ReplaceAll(c.verb, " ", "+"), c.id, orDash(c.token), c.process)
}

func answerLine(a answer) string {
	return fmt.Sprintf("answer %d %s %s %s %d %d\n", monotonic(), a.said, orDash(a.token), orDash(string(a.state)), a.epoch, a.attempt)
}

func readRecord(line string) (r clientRecord, at int64, err error) {
	var token, state string
	switch kind, rest, _ := strings.Cut(line, " "); kind {
	case "call":
		r.kind = kind
		_, err = fmt.Sscan(rest, &at, &r.in.verb, &r.in.id, &token, &r.in.process)
		r.in.verb, r.in.token = strings.ReplaceAll(r.in.verb, "+", " "), strings.TrimPrefix(token, "-")
	case "answer":
		r.kind = kind
		_, err = fmt.Sscan(rest, &at, &r.out.said, &token, &state, &r.out.epoch, &r.out.attempt)
		r.out.token, r.out.state = strings.TrimPrefix(token, "-"), State(strings.TrimPrefix(state, "-"))
	default:
		err = fmt.Errorf("no record")
	}
	return r, at, err
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (o orders) options() Options {
	return Options{Sync: durable.None, RetryBase: time.Nanosecond, MaxAttempts: linearAttempts}
}
