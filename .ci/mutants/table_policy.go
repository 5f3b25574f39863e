package main

const (
	boundsGo  = "agents/action/compose_bounds.go"
	composeGo = "agents/action/compose_check.go"
)

func actionTest(run string) command { return command{"agents/action", run} }

// policyMutants break what keeps an agent from more than it may do.
var policyMutants = []mutant{
	{
		"compose-deep", "security", boundsGo,
		"case level > maxLevels:", "case level > 9*maxNodes:",
		actionTest("TestComposeIsBounded"),
	},
	{
		"compose-aliases-for-nothing", "security", boundsGo,
		"\t\treturn count(n.Alias, level+1, nodes)\n", "\t\treturn nil\n",
		actionTest("TestComposeIsBounded"),
	},
	{
		"compose-every-way", "security", boundsGo,
		"n += ways[next]", "n++",
		actionTest("TestComposeIsBounded"),
	},
	{
		"compose-many-documents", "security", boundsGo,
		"!errors.Is(err, io.EOF)", "!errors.Is(err, io.EOF) && false",
		actionTest("TestComposeIsBounded"),
	},
	{
		"compose-shared-folder", "security", composeGo,
		"by != \"\" && by != name {", "false {",
		actionTest("TestComposeRefuses"),
	},
	{
		"compose-mount-in-a-mount", "security", composeGo,
		"if inside(v.Target, other.Target) || inside(other.Target, v.Target) {", "if v.Target == other.Target {",
		actionTest("TestComposeRefuses"),
	},
	{
		"compose-registry-by-address", "security", composeGo,
		"strings.ContainsAny(registry, \".:\")", "strings.Contains(registry, \":\")",
		actionTest("TestComposeRefuses"),
	},
}
