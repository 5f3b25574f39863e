package main

const (
	exportGo = "cmd/mbox/telemetry/export.go"
	spansGo  = "cmd/mbox/telemetry/spans.go"
	otlpGo   = "cmd/mbox/telemetry/otlp.go"
)

func telemetryTest(run string) command { return command{"cmd/mbox/telemetry", run} }

// telemetryMutants break what a server of traces is told.
var telemetryMutants = []mutant{
	{
		"traces-of-another-id-each-time", "telemetry", otlpGo,
		"[]byte(\"mbox telemetry\\n\" +", "[]byte(time.Now().String() +",
		telemetryTest("TestSentAgainIsTheSame"),
	},
	{
		"traces-forget-who-works", "telemetry", exportGo,
		"\te.kept.Open = maps.Clone(e.place.Open)\n", "\te.kept.Open = nil\n",
		telemetryTest("TestSentAgainIsTheSame"),
	},
	{
		"traces-lost-while-busy", "telemetry", exportGo,
		"case code == http.StatusTooManyRequests, code == http.StatusBadGateway,", "case code == http.StatusBadGateway,",
		telemetryTest("TestServerIsBackAgain"),
	},
	{
		"traces-lost-by-wrong-headers", "telemetry", exportGo,
		"case code == http.StatusUnauthorized, code == http.StatusForbidden,", "case code == http.StatusForbidden,",
		telemetryTest("TestWrongSettingsLoseNothing"),
	},
	{
		"traces-refused-and-not-counted", "telemetry", exportGo,
		"\t\t\te.place.Dropped += refused\n", "",
		telemetryTest("TestRefusedIsCounted"),
	},
	{
		"traces-tell-reasons", "telemetry", spansGo,
		"len(name) <= 64 && errorName().MatchString(name)", "len(name) <= 64",
		telemetryTest("TestReasonsStayAtHome"),
	},
	{
		"traces-remember-everything", "telemetry", spansGo,
		"e.place.Open[id] = o; len(e.place.Open) <= maxOpen {", "e.place.Open[id] = o; true {",
		telemetryTest("TestRemembersAFew"),
	},
	{
		"traces-put-back-is-the-same-span", "telemetry", spansGo,
		"o = open{Run: m.Epoch + 1, Again:", "o = open{Again:",
		telemetryTest("TestTaskIsATrace"),
	},
	{
		"traces-without-link", "telemetry", spansGo,
		"e.ids.span(parent, attemptSpan, epoch)", "e.ids.span(parent, taskSpan, epoch)",
		telemetryTest("TestChildAndApproval"),
	},
	{
		"measured-unasked", "telemetry", "agents/measure.go",
		"\tif !a.Measure {\n\t\treturn\n\t}\n", "",
		command{"agents", "TestMeasures"},
	},
}
