package main

const (
	lifeGo    = "agents/life/life.go"
	archiveGo = "agents/life/archive.go"
	linesAtGo = "audit/places.go"
)

// lifeMutants break how agents are born, put away and brought back.
var lifeMutants = []mutant{
	{
		"names-born-twice", "life", lifeGo,
		"if a, told := all[name]; told {", "if a, told := all[name]; told && a.Claims() {",
		command{"agents/life", "TestTakenName"},
	},
	{
		"birth-over-files", "life", lifeGo,
		"} else if is {\n\t\t\treturn fmt.Errorf(\"%s is there", "} else if is && path == \"\" {\n\t\t\treturn fmt.Errorf(\"%s is there",
		command{"agents/life", "TestTakenName"},
	},
	{
		"lines-begin-late", "ledger", "audit/backward.go",
		"from = ends[i-1]", "from = ends[i-1] + 1",
		command{"audit", "TestLinesBackward"},
	},
	{
		"wanted-blocks-passed-over", "ledger", "audit/backward.go",
		"if !wanted(lines) {", "if !wanted(lines[:len(lines)/2]) {",
		command{"audit", "TestLinesBackward"},
	},
	{
		"table-of-another-day", "ledger", linesAtGo,
		`fmt.Sscanf(text, placesHead(end)+" %d", &p.rows)`, `fmt.Sscanf(text[strings.LastIndexByte(text, ' ')+1:], "%d", &p.rows)`,
		command{"audit", "TestPlacesOfLines"},
	},
	{
		"table-unchecked", "ledger", linesAtGo,
		"crc32.Update(p.sum, crc32.IEEETable, body) != binary.LittleEndian.Uint32(sum)", "sum == nil",
		command{"audit", "TestPlacesOfLines"},
	},
	{
		"table-page-too-late", "ledger", linesAtGo,
		"len(page)/rowWidth-1).hash >= hash", "len(page)/rowWidth-1).hash > hash",
		command{"audit", "TestPlacesOfLines"},
	},
	{
		"table-unused", "ledger", "audit/backward.go",
		"			if over {\n", "			if over && id == \"\" {\n",
		command{"audit", "TestPlacesAreUsed"},
	},
	{
		"table-never-made-anew", "ledger", "audit/backward.go",
		"l.keepPlaces(name) == nil", "name == \"\"",
		command{"audit", "TestPlacesOfLines"},
	},
	{
		"half-born", "life", lifeGo,
		"failed = errors.Join(failed, arrive(ctx, b, name))", "_ = arrive",
		command{"agents/life", "TestFaults"},
	},
	{
		"buried-at-work", "life", archiveGo,
		"if err != nil || len(held) > 0 {", "if err != nil || len(held) > 1 {",
		command{"agents/life", "TestDrainWaits"},
	},
	{
		"changed-archives-come-back", "life", archiveGo,
		"if i >= len(now.Files) || now.Files[i] != f {", "if i >= len(now.Files) {",
		command{"agents/life", "TestChangedArchive"},
	},
	{
		"forged-manifests-count", "life", archiveGo,
		"if sum != audit.Hash(text) {", "if sum == \"\" {",
		command{"agents/life", "TestChangedArchive"},
	},
	{
		"namesakes-archives", "life", archiveGo,
		"if !is || !stamped().MatchString(at) {", "if !is || at == \"\" {",
		command{"agents/life", "TestArchiveOfAnother"},
	},
	{
		"manifest-waits-for-pipes", "life", archiveGo,
		"case info.Mode().IsRegular():", "case !info.IsDir():",
		command{"agents/life", "TestManifest"},
	},
	{
		"born-and-never-healthy", "life", lifeGo,
		"if a.State == lifecycle.Provisioning {\n\t\ta, err", "if a.State == lifecycle.Dead {\n\t\ta, err",
		command{"cmd/mbox", "TestScripts/agent_life$"},
	},
	{
		"killed-at-work", "life", "cmd/mbox/cmd_agent_life.go",
		"if len(held) > 0 && !o.now {", "if len(held) > 1 && !o.now {",
		command{"cmd/mbox", "TestScripts/agent_life$"},
	},
}
