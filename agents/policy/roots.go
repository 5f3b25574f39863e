package policy

import (
	"errors"
	"slices"

	"mbox/schemas"
)

// CheckRoots asks the disk whether the folders that the agent works in and that
// its lists open can become others: whether a list names a symlink, or one of
// them lies in another one in which the agent, or one of the others, may write,
// and so can put a symlink there. Unlike ForAgent it is for when the agent
// starts. The error is an [*Invalid], or several joined.
func (p *Policy) CheckRoots(others ...*Policy) error {
	f := faults{table: "risk_profiles." + p.RiskProfileName}
	writers := slices.Concat([]*Policy{p}, others)
	for i, root := range slices.Concat([]string{p.Workspace}, p.ReadWrite, p.ReadOnlyRoots, p.WriteOnly) {
		at, err := resolve(root)
		link, linkErr := leads(root)
		who, folder := replaces(writers, root, at)
		switch {
		case err != nil:
			f.add("allowed_roots", "where %s leads cannot be found out: %v", schemas.Quote(root), err)
		case i > 0 && linkErr == nil && link != "":
			f.add("allowed_roots", "%s, which agents.%s may use, is a symlink; write where it leads, %s", schemas.Quote(root), p.Agent, schemas.Quote(at))
		case who != "":
			f.add("allowed_roots", "%s, which agents.%s may use, lies in %s, where agents.%s may write, and could become a symlink; take one of them out",
				schemas.Quote(root), p.Agent, schemas.Quote(folder), who)
		}
	}
	return errors.Join(f.found...)
}

// replaces tells who may write in a folder around a root, as it is written or
// where it leads, and in which; "" for nobody.
func replaces(writers []*Policy, root, at string) (who, folder string) {
	for _, w := range writers {
		for _, folder := range w.lists() {
			for _, path := range []string{root, at} {
				if rel, ok := below(path, folder); ok && rel != "." {
					return w.Agent, folder
				}
			}
		}
	}
	return "", ""
}
