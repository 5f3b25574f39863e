package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// keeper is the name, argument 0, that makes this binary a keeper.
const keeper = "mbox-keeper"

// Process is a command under its keeper: a process of this same binary that
// starts it, in a process group of its own, and ends when nothing is left of all
// that has come from it. In a sandbox the keeper is the first process of a PID
// namespace, elsewhere the one to which orphans are given (on macOS, which has
// neither, it knows the group only). So leaving the group, the session or the
// parent is no way out.
//
// The keeper ends everything when the caller dies, when it gets SIGTERM, and by
// [Process.End]. What a keeper leaves that was killed itself, the caller ends, to
// whom it falls.
type Process struct {
	Pid int // of the keeper

	cmd             *exec.Cmd
	born            uint64        // when the keeper was, in ticks
	orders, reports *os.File      // ours: to the keeper, from the keeper
	ended, gone     chan struct{} // closed when the command has ended, and everything
	group           int           // the command's, if the number means something here
	told            bool          // how the command has ended
	status          syscall.WaitStatus
	err             error // why it did not start
}

// What a keeper is told: to begin, and to pass SIGTERM on to everything. The end
// of the orders means to kill it. It reports, a line each, why the command did not
// start, or which group it is in, and the status with which it has ended.
const (
	orderBegin, orderTerm                    = 'b', 't'
	reportFailed, reportStarted, reportEnded = "failed", "started", "ended"
)

// Start starts the keeper. The command begins with [Process.Begin]. All fields of
// cmd have to be set before; [Confine], if wanted, comes before too. The streams
// have to be files. After Start cmd is not to be used.
func Start(cmd *exec.Cmd) (*Process, error) {
	if !ready {
		return nil, ErrNotReady
	}
	if err := underKeeper(cmd); err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, ended: make(chan struct{}), gone: make(chan struct{}), status: syscall.WaitStatus(syscall.SIGKILL)}
	theirOrders, orders, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirOrders.Close()
	reports, theirReports, err := os.Pipe()
	if err != nil {
		orders.Close()
		return nil, err
	}
	defer theirReports.Close()
	cmd.Args[1] = strconv.Itoa(3 + len(cmd.ExtraFiles))
	cmd.ExtraFiles = append(slices.Clip(cmd.ExtraFiles), theirOrders, theirReports)
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Setsid = true // a terminal is for the caller; and see launch
	if err := p.launch(); err != nil {
		orders.Close()
		reports.Close()
		return nil, err
	}
	p.Pid, p.orders, p.reports = cmd.Process.Pid, orders, reports
	go p.follow()
	return p, nil
}

// underKeeper makes the command start by a keeper that gets no orders, if it does
// not yet.
func underKeeper(cmd *exec.Cmd) error {
	if cmd.Err != nil {
		return cmd.Err
	}
	if len(cmd.Args) > 0 && cmd.Args[0] == keeper {
		return nil
	}
	self, err := ownBinary()
	if err != nil {
		return err
	}
	cmd.Args = slices.Concat([]string{keeper, "-", cmd.Path}, cmd.Args)
	cmd.Path = self
	return nil
}

// Begin lets the command start. Before it a keeper whose caller dies just ends.
func (p *Process) Begin() error { return p.order(orderBegin) }

// Terminate sends SIGTERM to the command and all that has come from it.
func (p *Process) Terminate() { _ = p.order(orderTerm) } // there may be none left

func (p *Process) order(o byte) error {
	_, err := p.orders.Write([]byte{o})
	return err
}

// End ends what lives of the command and of all that has come from it: by
// SIGTERM, and by SIGKILL after the grace or when the context ends. It returns
// when nothing is left that can be killed: it gives up on what is in the kernel's
// hands, which dies when the kernel lets go of it.
func (p *Process) End(ctx context.Context, grace time.Duration) {
	p.Terminate()
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-p.gone:
	case <-late.C:
	case <-ctx.Done():
	}
	p.Kill(5 * time.Second)
}

// Kill ends the command and all that has come from it at once, and returns when
// it has. A keeper that takes longer than the time is killed itself.
func (p *Process) Kill(most time.Duration) {
	p.orders.Close()
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-p.gone:
	case <-late.C:
		_ = p.cmd.Process.Kill()
		<-p.gone
	}
}

// Ended is closed when the command has ended, Gone when nothing is left of it.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Gone is closed when nothing is left of the command.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Status is how the command has ended, or why it did not start; by SIGKILL where
// its keeper was killed. After Ended.
func (p *Process) Status() (syscall.WaitStatus, error) { return p.status, p.err }

// follow follows the keeper to its end, and ends what it left.
func (p *Process) follow() {
	heard := make(chan struct{})
	go func() { defer close(heard); p.listen() }()
	failed := p.cmd.Wait() != nil
	_ = p.reports.SetReadDeadline(time.Now().Add(time.Second)) // a command may have got hold of the other end
	<-heard
	p.buried(failed)
	if !p.told {
		close(p.ended)
	}
	p.reports.Close()
	close(p.gone)
}

// listen reads what the keeper reports.
func (p *Process) listen() {
	lines := bufio.NewScanner(p.reports)
	for lines.Scan() {
		what, text, _ := strings.Cut(lines.Text(), " ")
		n, _ := strconv.Atoi(text) // 0 for a text
		switch {
		case what == reportStarted:
			p.group = n
		case what == reportFailed:
			p.err = errors.New(text)
		case what == reportEnded && !p.told:
			p.status, p.told = syscall.WaitStatus(n), true
			close(p.ended)
		}
	}
}

// helper is the name that makes this binary what confines a command.
const helper = "mbox-sandbox"

// ready tells that Main has been called, so that starting this binary by those
// names runs what they mean.
var ready bool

// Main is the first call of every program that starts or confines commands, tests
// too. It returns at once, unless this package has started the program: then it
// never returns.
func Main() {
	ready = true
	if len(os.Args) == 0 {
		return
	}
	switch os.Args[0] {
	case keeper:
		os.Exit(keep(os.Args[1:]))
	case helper:
		help(os.Args[1:])
	}
}

// keeping is what a keeper knows.
type keeping struct {
	reports io.WriteCloser // nil where nobody listens
	pid     int            // of the command
	alone   chan struct{}  // closed when nothing is left
	kill    chan struct{}  // has an element when everything is to be ended
	code    int            // of exit: 0 if nothing is left; where nobody listens, the command's as a shell would tell it
}

// keep is a keeper: arguments are the number of the descriptor that orders come
// from, before that of reports, or "-", then the command's path and arguments.
func keep(args []string) int {
	if len(args) < 3 {
		fmt.Fprintln(os.Stderr, "this is a keeper of mbox, not a command")
		return ExitRefused
	}
	runtime.LockOSThread() // the command dies with the thread that starts it
	syscall.Umask(0o077)
	k := &keeping{alone: make(chan struct{}), kill: make(chan struct{}, 1)}
	orders, err := k.connect(args[0])
	if err != nil {
		fmt.Fprintf(os.Stderr, "sandbox: keeper: %v\n", err)
		return ExitRefused
	}
	k.heed()
	if orders != nil && !awaits(orders, orderBegin) {
		return ExitRefused
	}
	if err := k.start(args[1], args[2:]); err != nil {
		k.report(reportFailed, err.Error())
		fmt.Fprintf(os.Stderr, "sandbox: %s: %v\n", args[1], err)
		return ExitRefused
	}
	if orders != nil {
		go k.obey(orders)
	}
	go k.reap(orders == nil)
	select {
	case <-k.alone:
	case <-k.kill:
		k.finish()
	}
	return k.code
}

// connect opens the descriptors of orders and reports, which the command does not
// inherit.
func (k *keeping) connect(number string) (orders *os.File, err error) {
	if number == "-" {
		return nil, nil
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 3 {
		return nil, fmt.Errorf("descriptor %q", number)
	}
	syscall.CloseOnExec(n)
	syscall.CloseOnExec(n + 1)
	k.reports = os.NewFile(uintptr(n+1), "reports")
	return os.NewFile(uintptr(n), "orders"), nil
}

func (k *keeping) report(what, text string) {
	if k.reports != nil {
		_, _ = io.WriteString(k.reports, what+" "+strings.ReplaceAll(text, "\n", " ")+"\n") // the caller may have died
	}
}

// heed lets SIGTERM end everything, and no other signal do anything.
func (k *keeping) heed() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals)
	go func() {
		for s := range signals {
			if s == syscall.SIGTERM {
				k.end()
			}
		}
	}()
}

func (k *keeping) end() {
	select {
	case k.kill <- struct{}{}:
	default: // it is known
	}
}

// awaits reads the first order.
func awaits(orders *os.File, want byte) bool {
	var b [1]byte
	n, _ := orders.Read(b[:])
	return n == 1 && b[0] == want
}

// start starts the command, and lets go of its streams, which would else not end
// with it.
func (k *keeping) start(path string, args []string) error {
	if err := adoptOrphans(); err != nil {
		return err
	}
	var err error
	k.pid, err = syscall.ForkExec(path, args, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: childAttr()})
	if err != nil {
		return err
	}
	group := k.pid
	if os.Getpid() == 1 {
		group = 0 // the number means nothing outside
	}
	k.report(reportStarted, strconv.Itoa(group))
	return dropStreams()
}

// obey passes SIGTERM on, until the end of the orders.
func (k *keeping) obey(orders *os.File) {
	for awaits(orders, orderTerm) {
		k.signal(syscall.SIGTERM)
	}
	k.end()
}

// reap waits for everything that has come from the command. Where nobody
// listens, all is over with the command.
func (k *keeping) reap(last bool) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil: // nothing is left
			k.untilEmpty()
			close(k.alone)
			return
		case pid != k.pid:
			continue
		}
		k.report(reportEnded, strconv.Itoa(int(status)))
		if !last {
			continue
		}
		k.code = status.ExitStatus()
		if status.Signaled() {
			k.code = 128 + int(status.Signal())
		}
		k.end()
	}
}

// finish kills until nothing is left.
func (k *keeping) finish() {
	for pause := time.Millisecond; ; pause = min(2*pause, time.Second) {
		k.signal(syscall.SIGKILL)
		select {
		case <-k.alone:
			return
		case <-time.After(pause):
		}
	}
}
