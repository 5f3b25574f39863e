package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// cuts are the power cuts that a log allows up to its end: for each flush the
// moment before the next one, with nothing, everything or some of what was
// written since, and a moment in between.
func cuts(flushes []int, end int, random *rand.Rand) (list []cut) {
	durable := 0
	for _, next := range append(flushes, end) {
		if next > end {
			break
		}
		list = append(list, cut{Durable: durable, Until: next, Keep: 0})
		if next > durable {
			some := durable + 1 + random.IntN(next-durable)
			list = append(list,
				cut{Durable: durable, Until: next, Keep: 1},
				cut{Durable: durable, Until: next, Keep: 0.1 + 0.8*random.Float64(), Seed: random.Uint64()},
				cut{Durable: durable, Until: some, Keep: 0.1 + 0.8*random.Float64(), Seed: random.Uint64()})
		}
		durable = next + 1
	}
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// mutantImages is how many disks a mutant may survive before the run is void.
const mutantImages = 150

// cutAll looks at as many of the cuts as were asked for. Making a mailbox
// flushes more often than all the work in it, so only every fifth cut falls into
// that; a mutant is looked for behind it.
func (t *tester) cutAll() error {
	begun := t.journal.acked("init")
	var early, late []cut
	for _, c := range cuts(t.disks.flushes(t.live), t.end, t.random) {
		if c.Until < begun {
			early = append(early, c)
		} else {
			late = append(late, c)
		}
	}
	n := t.Images
	if t.First {
		n, early = mutantImages, nil
	}
	for i := range n {
		var c cut
		switch {
		case len(early) > 0 && (i%5 == 4 || len(late) == 0):
			c, early = early[0], early[1:]
		case len(late) > 0:
			c, late = late[0], late[1:]
		default:
			return nil
		}
		faults, err := t.cutOne(c, i < t.Deep)
		if err != nil {
			return fmt.Errorf("%+v: %w", c, err)
		}
		t.out.Violations = append(t.out.Violations, faults...)
		if t.First && len(faults) > 0 {
			return nil
		}
	}
	return nil
}

// cutOne looks at one cut. If deep, the power fails once more in the first
// command after it, and the journal holds for that disk too.
func (t *tester) cutOne(c cut, deep bool) (faults []string, err error) {
	disk := t.disks.cut(t.live, c)
	t.disks.restart(disk)
	faults, end, err := t.lookAt(disk, c)
	if err != nil || !deep || len(faults) > 0 {
		t.disks.drop(disk)
		return faults, err
	}
	second := cuts(t.disks.flushes(disk), end, t.random)
	again := second[0]
	twice := t.disks.cut(disk, again)
	t.disks.drop(disk)
	t.out.Deep++
	faults, _, err = t.lookAt(twice, c)
	t.disks.drop(twice)
	for i, f := range faults {
		faults[i] = fmt.Sprintf("after a second power cut at %+v: %s", again, f)
	}
	return faults, err
}

// lookAt mounts a disk in the next boot and looks at it. recovered is the place
// in its log at which the first command had ended.
func (t *tester) lookAt(disk string, c cut) (faults []string, recovered int, err error) {
	if err := t.reboot(); err != nil {
		return nil, 0, err
	}
	mount := filepath.Join(t.Dir, disk+".mount")
	if err := t.fs.mount(t.path(disk), mount); err != nil {
		return nil, 0, err
	}
	defer os.Remove(mount)
	l := &look{
		tester: t, disk: disk, until: c.Until, random: rand.New(rand.NewPCG(c.Seed, uint64(c.Until))),
		commands: commands{bin: t.Mbox, home: filepath.Join(mount, "home"), dir: t.Dir},
	}
	l.look()
	t.out.Images++
	for i, f := range l.faults {
		l.faults[i] = fmt.Sprintf("power cut %+v: %s", c, f)
	}
	if len(l.faults) > 0 && !t.First && len(t.out.Violations) < 5 {
		l.keep(fmt.Sprintf("violation-%d", len(t.out.Violations)))
	}
	return l.faults, l.recovered, unmount(mount)
}
