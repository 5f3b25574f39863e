package policy

import (
	"errors"
	"slices"

	"mbox/schemas"
)

// CheckRoots asks the disk whether the folders that the agent's lists open can
// become others: whether one is a symlink, or lies in another one in which the
// agent may write, and so can put a symlink there. Unlike ForAgent it is for when
// the agent starts. The error is an [*Invalid], or several joined.
func (p *Policy) CheckRoots() error {
	f := faults{table: "risk_profiles." + p.RiskProfileName}
	writable := p.lists()
	for _, root := range slices.Concat(p.ReadWrite, p.ReadOnlyRoots, p.WriteOnly) {
		at, err := resolve(root)
		link, linkErr := leads(root)
		inside := func(folder string) bool {
			rel, ok := below(at, folder)
			return ok && rel != "."
		}
		switch i := slices.IndexFunc(writable, inside); {
		case err != nil:
			f.add("allowed_roots", "where %s leads cannot be found out: %v", schemas.Quote(root), err)
		case linkErr == nil && link != "":
			f.add("allowed_roots", "%s, which agents.%s may use, is a symlink; write where it leads, %s", schemas.Quote(root), p.Agent, schemas.Quote(at))
		case i >= 0:
			f.add("allowed_roots", "%s lies in %s, where agents.%s may write, and could become a symlink; take one of them out", schemas.Quote(root), schemas.Quote(writable[i]), p.Agent)
		}
	}
	return errors.Join(f.found...)
}
