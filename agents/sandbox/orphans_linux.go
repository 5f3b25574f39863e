package sandbox

import (
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// keepers are the living keepers of this process. Who holds it locked sees none
// that is just being started.
var keepers = struct {
	sync.Mutex
	by map[int]*Process
}{by: map[int]*Process{}}

// launch starts the keeper, in a session of its own.
//
// A keeper that is killed, by its own command for one, leaves processes. They fall
// to this one, whatever they did, and can be told from its other children: nobody
// can join a session but at birth, so what has come from a keeper is never of the
// caller's, and what the caller starts by other ways is. What is older than the
// killed keeper was here before, where this process is the first of a container.
// Which keeper's an orphan was does not matter: one that ends by itself leaves none.
func (p *Process) launch() error {
	if err := adoptOrphans(); err != nil {
		return err
	}
	keepers.Lock()
	defer keepers.Unlock()
	if err := p.cmd.Start(); err != nil {
		return err
	}
	k, _ := kinOf(strconv.Itoa(p.cmd.Process.Pid)) // without /proc it would not have started
	p.born = k.born
	keepers.by[p.cmd.Process.Pid] = p
	return nil
}

// orphanTime is how long the end of orphans may take. What the kernel does not let
// go of by then dies when it does.
const orphanTime = 5 * time.Second

// buried is told that the keeper has ended. If it did not end as it should, its
// orphans end now.
func (p *Process) buried(failed bool) {
	keepers.Lock()
	if keepers.by[p.Pid] == p { // else another has the number already
		delete(keepers.by, p.Pid)
	}
	keepers.Unlock()
	if !failed {
		return
	}
	end := time.Now().Add(orphanTime)
	for pause := time.Millisecond; endOrphans(p.born) > 0 && time.Now().Before(end); pause = min(2*pause, 100*time.Millisecond) {
		time.Sleep(pause)
	}
}

// endOrphans kills the orphans of keepers that are not older, buries the dead, and
// tells how many there were. The children of the dead are the next ones.
func endOrphans(born uint64) (found int) {
	keepers.Lock()
	defer keepers.Unlock()
	all, err := processes()
	if err != nil {
		return 1 // they are to be looked for again
	}
	self := os.Getpid()
	for pid, k := range all {
		if k.parent != self || k.session == all[self].session || k.born < born || keepers.by[pid] != nil {
			continue
		}
		buried, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
		if err != nil {
			continue // no child of this process after all
		}
		if found++; buried == 0 { // so its number is still its own
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	return found
}
