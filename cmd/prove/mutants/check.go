package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// rules is how many rules the protocol has; each has a mutant.
const rules = 23

// check tells what is wrong with the tables: an old text that is not exactly
// once in its file, a new one that does not parse, a test that is not there, a
// rule without a mutant, a count elsewhere that is not theirs.
func check(all []mutant, explained map[string]bool) error {
	var errs []error
	names, covered := map[string]bool{}, map[string]bool{}
	tests := map[string][]string{}
	for _, m := range all {
		if names[m.name] {
			errs = append(errs, fmt.Errorf("%s: there are two of that name", m.name))
		}
		names[m.name] = true
		for r := range strings.SplitSeq(m.rule, ",") {
			covered[strings.TrimSpace(r)] = true
		}
		if _, err := m.apply(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.name, err))
		}
		if err := m.kill.check(tests); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.name, err))
		}
	}
	for r := 1; r <= rules; r++ {
		if !covered[strconv.Itoa(r)] {
			errs = append(errs, fmt.Errorf("rule %d has no mutant", r))
		}
	}
	for name := range explained {
		if !names[name] {
			errs = append(errs, fmt.Errorf("survivors.md explains %s, which is no mutant", name))
		}
	}
	for _, file := range counts {
		data, err := os.ReadFile(file)
		if count := fmt.Sprintf("mbox in %d places", len(all)); !strings.Contains(string(data), count) {
			errs = append(errs, err, fmt.Errorf("%s does not say %q", file, count))
		}
	}
	return errors.Join(errs...)
}

// counts are the files that say how many mutants there are.
var counts = []string{"Makefile", "cmd/mbox/help/proof.md"}

// unixImport comes along with a change that calls the system.
const unixImport = `"golang.org/x/sys/unix"`

// apply returns the file with the change made.
func (m mutant) apply() ([]byte, error) {
	data, err := os.ReadFile(m.file)
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(data), m.old); n != 1 {
		return nil, fmt.Errorf("its old text is %d times in %s, not once", n, m.file)
	}
	if m.old == m.new {
		return nil, errors.New("it changes nothing")
	}
	changed := []byte(strings.Replace(string(data), m.old, m.new, 1))
	if strings.Contains(m.new, "unix.") && !strings.Contains(string(data), unixImport) {
		changed = []byte(strings.Replace(string(changed), "import (\n", "import (\n\t"+unixImport+"\n", 1))
	}
	if _, err := parser.ParseFile(token.NewFileSet(), m.file, changed, parser.SkipObjectResolution); err != nil {
		return nil, fmt.Errorf("it does not parse: %w", err)
	}
	return changed, nil
}

// check tells whether the command names a test that is there. known caches the
// tests of a package.
func (c command) check(known map[string][]string) error {
	first, _, _ := strings.Cut(c.run, "/")
	want, err := regexp.Compile(first)
	if err != nil || c.run == "" {
		return fmt.Errorf("%s is no test: %w", c, err)
	}
	if known[c.pkg] == nil {
		if known[c.pkg], err = testsOf(c.pkg); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(known[c.pkg], want.MatchString) {
		return fmt.Errorf("%s: there is no such test", c)
	}
	return nil
}

func testsOf(pkg string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(pkg, "*_test.go"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				names = append(names, fn.Name.Name)
			}
		}
	}
	return names, nil
}
