// Command mutants shows that the tests notice when mbox is broken. It makes one
// change at a time (see the tables), each against a rule of the protocol, and runs
// the test that ought to fail; if that passes, all tests of mailbox/durable, audit
// and mailbox. A change that they all pass survives: it is a hole in the tests, or
// survivors.md says why it is none.
//
//	go run ./cmd/prove/mutants [-run regexp] [-j n]	from the top folder
//	go run ./cmd/prove/mutants -check	only holds the tables against the source
//
// The tree is not touched: the changed file comes in by go's -overlay. Before,
// each test is run on what is not changed, and has to pass there. A change that
// does not compile, or whose old text is not exactly once in its file, makes the
// run void. Exit code 1: too few were killed, or survivors.md is not right. 2:
// void.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// mutant is one change and the test that ought to notice it.
type mutant struct {
	name string
	rule string // numbers of the protocol's rules, or what else is broken
	file string
	old  string // stands exactly once in the file
	new  string
	kill command
}

// command is tests of one package.
type command struct {
	pkg string // below the top folder
	run string // for -test.run; "" for all
}

func (c command) String() string {
	if c.run == "" {
		return c.pkg
	}
	return c.pkg + " -run " + c.run
}

// rest is what runs before a mutant is called a survivor, in the short form.
var rest = []command{{pkg: "mailbox/durable"}, {pkg: "audit"}, {pkg: "audit/verify"}, {pkg: "audit/delegation"}, {pkg: "mailbox"}}

// enough is how many of a hundred must be killed.
const enough = 95

func table() []mutant {
	return slices.Concat(
		durableMutants,
		auditMutants,
		mailboxMutants,
		recoveryMutants,
		familyMutants,
		policyMutants,
		rightsMutants,
		doorsMutants,
		mcpMutants,
		bridgeMutants,
		deliveryMutants,
		ircMutants,
		hooksMutants,
		matrixMutants,
		emailMutants,
		telegramMutants,
		runtimeMutants,
		acceptMutants,
		scheduleMutants,
		channelsMutants,
		lifecycleMutants,
		lifeMutants,
		slackMutants,
		memoryMutants,
		secretMutants,
		statusMutants,
		editMutants,
		pathsMutants,
		telemetryMutants,
	)
}

func main() {
	pattern := flag.String("run", "", "only mutants whose names match this `regexp`")
	workers := flag.Int("j", max(1, runtime.NumCPU()/2), "how many at once")
	only := flag.Bool("check", false, "only check that the tables fit the source")
	own := flag.Bool("own", false, "only each mutant's own test: no verdict, but fast")
	flag.Parse()
	code, err := run(*pattern, *workers, *only, *own)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants: void:", err)
		code = 2
	}
	os.Exit(code)
}

func run(pattern string, workers int, only, own bool) (int, error) {
	chosen, err := regexp.Compile(pattern)
	if err != nil {
		return 0, err
	}
	explained, err := readSurvivors()
	if err != nil {
		return 0, err
	}
	all := table()
	if err := check(all, explained); err != nil || only {
		return 0, err
	}
	some := slices.DeleteFunc(slices.Clone(all), func(m mutant) bool { return !chosen.MatchString(m.name) })
	if len(some) == 0 {
		return 0, errors.New("no mutant of such a name")
	}
	l, err := newLab()
	if err != nil {
		return 0, err
	}
	defer l.close()
	if own {
		l.rest = nil
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		l.close()
		os.Exit(2)
	}()
	if err := l.baseline(some, workers); err != nil {
		return 0, err
	}
	ends, err := l.all(some, workers)
	if err != nil {
		return 0, err
	}
	return verdict(ends, explained, len(some) == len(all)), nil
}

// ending is what became of a mutant.
type ending struct {
	mutant
	killer string // "" if it has survived
}

// all runs the mutants and prints a line for each, as they end.
func (l *lab) all(some []mutant, workers int) ([]ending, error) {
	ends, errs := make([]ending, len(some)), make([]error, len(some))
	next := make(chan int)
	var wg sync.WaitGroup
	var out sync.Mutex
	for range workers {
		wg.Go(func() {
			for i := range next {
				began := time.Now()
				killer, err := l.try(some[i])
				ends[i], errs[i] = ending{some[i], killer}, err
				said := "SURVIVED"
				if err != nil {
					said = "VOID: " + err.Error()
				} else if killer != "" {
					said = "killed by " + killer
				}
				out.Lock()
				fmt.Printf("%-28s rule %-8s %s (%.1f s)\n", some[i].name, some[i].rule, said, time.Since(began).Seconds())
				out.Unlock()
			}
		})
	}
	for i := range some {
		next <- i
	}
	close(next)
	wg.Wait()
	return ends, errors.Join(errs...)
}

// verdict prints the tally and what is wrong with it.
func verdict(ends []ending, explained map[string]bool, whole bool) (code int) {
	killed := 0
	for _, e := range ends {
		switch {
		case e.killer != "" && explained[e.name]:
			fmt.Printf("%s is explained in survivors.md, and killed\n", e.name)
			code = 1
		case e.killer == "" && !explained[e.name]:
			fmt.Printf("%s has survived, and survivors.md does not say why\n", e.name)
			code = 1
		}
		if e.killer != "" {
			killed++
		}
	}
	fmt.Printf("%d mutants, %d killed (%.1f %%), %d survived\n", len(ends), killed, 100*float64(killed)/float64(len(ends)), len(ends)-killed)
	if whole && 100*killed < enough*len(ends) {
		fmt.Printf("fewer than %d %% were killed\n", enough)
		code = 1
	}
	return code
}

// readSurvivors takes the names out of survivors.md: its headings of level two.
func readSurvivors() (map[string]bool, error) {
	text, err := os.ReadFile("cmd/prove/mutants/survivors.md")
	if err != nil {
		return nil, fmt.Errorf("%w: run it from the top folder", err)
	}
	names := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "## "); ok {
			names[strings.TrimSpace(name)] = true
		}
	}
	return names, nil
}
