package action

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v4"
)

// The most that a file may have. Who reads YAML alone takes time in proportion to
// its length, whatever stands in it; what docker compose then does with it grows
// with the square of the levels, and doubles with each service that two others need.
const (
	maxNodes  = 1000 // keys and values, each alias counted as what it stands for
	maxLevels = 16   // Compose itself has eight
	maxWays   = 1000 // from service to service, by depends_on
)

// checkSize reads a file as YAML alone, and refuses one that is too large or too
// deep to be looked at as a Compose file.
func checkSize(text string) error {
	files := yaml.NewDecoder(strings.NewReader(text))
	var file yaml.Node
	if err := files.Decode(&file); err != nil {
		return fmt.Errorf("is no Compose file: %w", err)
	}
	if err := files.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New("has more than one document")
	}
	nodes := 0
	return count(&file, 0, &nodes)
}

func count(n *yaml.Node, level int, nodes *int) error {
	switch *nodes++; {
	case *nodes > maxNodes:
		return fmt.Errorf("has more than %d keys and values", maxNodes)
	case level > maxLevels:
		return fmt.Errorf("is nested more than %d levels deep", maxLevels)
	case n.Kind == yaml.AliasNode:
		return count(n.Alias, level+1, nodes)
	}
	for _, part := range n.Content {
		if err := count(part, level+1, nodes); err != nil {
			return err
		}
	}
	return nil
}

// checkDependencies refuses circles, and more ways from service to service than
// anybody should follow: docker compose follows each one to its end.
func checkDependencies(model map[string]any) error {
	begun, ways, all := map[string]bool{}, map[string]int{}, 0
	var from func(name string) error
	from = func(name string) error {
		if begun[name] {
			if ways[name] == 0 {
				return fmt.Errorf("services.%s.depends_on leads back to it", name)
			}
			return nil
		}
		begun[name] = true
		n := 1
		for _, next := range sorted(fields(model, "services", name)["depends_on"]) {
			if err := from(next); err != nil {
				return err
			}
			n += ways[next]
		}
		if all += n; all > maxWays {
			return fmt.Errorf("services depend on each other in more than %d ways", maxWays)
		}
		ways[name] = n
		return nil
	}
	for _, name := range sorted(model["services"]) {
		if err := from(name); err != nil {
			return err
		}
	}
	return nil
}
