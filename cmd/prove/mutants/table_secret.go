package main

func secretTest(run string) command { return command{"agents/secret", run} }

const (
	secretGo   = "agents/secret/secret.go"
	identityGo = "agents/secret/identity.go"
	keyringGo  = "agents/secret/keyring/keyring.go"
)

// secretMutants break what keeps the secrets of agents: that only who may has them, and
// that none is lost.
var secretMutants = []mutant{
	{
		"secret-in-clear", "secrets", secretGo,
		"\terr = errors.Join(err, armored.Close())\n\treturn out.Bytes(), err", "\terr = errors.Join(err, armored.Close())\n\treturn append(out.Bytes(), value...), err",
		secretTest("TestAtRest$"),
	},
	{
		"secret-identity-of-others", "secrets", identityGo,
		"text, err := durable.ReadPrivate(at.File, maxIdentity)", "text, err := durable.Read(at.File, maxIdentity)",
		secretTest("TestBroken$"),
	},
	{
		"secret-file-of-others", "secrets", secretGo,
		"data, err := durable.ReadPrivate(path, maxFile)", "data, err := durable.Read(path, maxFile)",
		secretTest("TestBroken$"),
	},
	{
		"secret-identity-made-anew", "secrets", secretGo,
		"if locked || err != nil {", "if locked && false || err != nil {",
		secretTest("TestLostIdentity$"),
	},
	{
		"secret-two-identities", "secrets", secretGo,
		"return errors.Join(do(), lock.Unlock())", "return errors.Join(lock.Unlock(), do())",
		secretTest("TestSetAlone$"),
	},
	{
		"secret-half-of-them", "secrets", secretGo,
		"\tif faults != nil {\n\t\treturn nil, errors.Join(faults...)", "\tif faults != nil {\n\t\treturn values, errors.Join(faults...)",
		secretTest("TestBroken$"),
	},
	{
		"secret-stays-with-the-old-name", "secrets", secretGo,
		"for _, name := range names {\n\t\t\tif err == nil {\n\t\t\t\terr = durable.Rename", "for _, name := range names[1:] {\n\t\t\tif err == nil {\n\t\t\t\terr = durable.Rename",
		secretTest("TestRename$"),
	},
	{
		"secret-takes-any-name", "secrets", secretGo,
		"func(start string) bool { return strings.HasPrefix(name, start) }", "func(start string) bool { return name == start }",
		secretTest("TestNames$"),
	},
	{
		"secret-too-short-to-hide", "secrets", secretGo,
		"case len(value) < Least:", "case len(value) < 1:",
		secretTest("TestBounds$"),
	},
	{
		"secret-without-end", "secrets", secretGo,
		"made && len(names) >= Many", "made && len(names) > Many",
		secretTest("TestBounds$"),
	},
	{
		"secret-printed", "secrets", secretGo,
		"func (Values) Format(s fmt.State, _ rune)", "func (Values) Formats(s fmt.State, _ rune)",
		secretTest("TestValuesHide$"),
	},
	{
		"secret-lines-kept", "secrets", secretGo,
		"line != value && len(line) >= Least", "line != value && len(line) < Least",
		secretTest("TestValuesHide$"),
	},
	{
		"secret-shortest-first", "secrets", secretGo,
		"cmp.Or(len(b)-len(a), strings.Compare(a, b))", "cmp.Or(len(a)-len(b), strings.Compare(a, b))",
		secretTest("TestValuesHide$"),
	},
	{
		"secret-in-a-result", "secrets", "agents/attempt.go",
		"withoutWords(a.secrets.Words(), value))", "value)",
		agentsTest("TestSecretsOfCommands$"),
	},
	{
		"secret-in-a-failure", "secrets", "agents/unlock.go",
		"failure.Message = hideWords(words, failure.Message)", "",
		agentsTest("TestSecretsInFailures$"),
	},
	{
		"secret-escaped", "secrets", "agents/unlock.go",
		"text := token.String()", "text := string(v)",
		agentsTest("TestWithoutWords$"),
	},
	{
		"secret-not-searched", "secrets", "agents/unlock.go",
		"\t\tif err != nil {\n\t\t\treturn unsearched", "\t\tif err != nil {\n\t\t\treturn v",
		agentsTest("TestWithoutWords$"),
	},
	{
		"secret-cut-in-a-line", "secrets", "agents/remarks.go",
		"maxHeard-len(r.line)", "maxRemark-len(r.line)",
		agentsTest("TestRemarksCutNoSecret$"),
	},
	{
		"secret-begun-in-a-line", "secrets", "agents/remarks.go",
		"line = withoutBegun(r.hide, line)", "line = r.hide(line)",
		agentsTest("TestRemarksCutNoSecret$"),
	},
	{
		"secret-begun-in-a-result", "secrets", "agents/output.go",
		"withoutBegun(o.hide, string(data))", "o.hide(string(data))",
		agentsTest("TestSecretsAtTheEndOfOutput$"),
	},
	{
		"secret-begun-in-prose", "secrets", "agents/format.go",
		"withoutBegun(r.hide, string(line))", "r.hide(string(line))",
		agentsTest("TestSecretsAtTheEndOfOutput$"),
	},
	{
		"secret-cut-in-a-progress", "secrets", "agents/format.go",
		"schemas.Sentence(r.hide(text), maxNews)", "r.hide(schemas.Sentence(text, maxNews))",
		agentsTest("TestSecretsAreHiddenBeforeTheCut$"),
	},
	{
		"secret-cut-in-a-fault", "secrets", "agents/format.go",
		"schemas.Sentence(r.hide(strings.Join(words, \": \")), maxTail)", "r.hide(schemas.Sentence(strings.Join(words, \": \"), maxTail))",
		agentsTest("TestSecretsAreHiddenBeforeTheCut$"),
	},
	{
		"secret-cut-in-a-runtimes-failure", "secrets", "agents/runtime.go",
		"schemas.Sentence(a.without(d.Message), maxTail)", "a.without(schemas.Sentence(d.Message, maxTail))",
		agentsTest("TestSecretsOfRuntimes$"),
	},
	{
		"secret-cut-in-last-words", "secrets", "agents/runtime.go",
		"schemas.Sentence(a.without(d.Said), maxTail)", "a.without(schemas.Sentence(d.Said, maxTail))",
		agentsTest("TestSecretsOfRuntimes$"),
	},
	{
		"secret-cut-in-a-runtimes-progress", "secrets", "agents/runtime.go",
		"schemas.Sentence(j.a.without(text), maxNews)", "j.a.without(schemas.Sentence(text, maxNews))",
		agentsTest("TestSecretsOfRuntimes$"),
	},
	{
		"secret-gives-way", "secrets", "agents/attempt.go",
		"return append(env, a.secrets.Environment()...)", "return append(a.secrets.Environment(), env...)",
		agentsTest("TestSecretsOfCommands$"),
	},
	{
		"secret-locked-burns-an-attempt", "secrets", "agents/unlock.go",
		"a.end(hard, verdict{release: why, delay: releaseDelay})", "a.end(hard, failed(\"start\", schemas.Sentence(err.Error(), maxTail)))",
		agentsTest("TestSecretsThatAreLocked$"),
	},
	{
		"secret-locked-claims-on", "secrets", "agents/unlock.go",
		"\t\ta.disable(why)\n", "",
		agentsTest("TestSecretsThatAreLocked$"),
	},
	{
		"secret-set-by-agents", "secrets", "cmd/mbox/cmd_secret.go",
		"return sealing.byName(ctx, s, o.agent, func(box *mailbox.Box, agent string) error {\n\t\t\t\to.agent = agent\n\t\t\t\treturn o.set(", "return s.with(ctx, func(box *mailbox.Box) error {\n\t\t\t\treturn o.set(",
		mboxTest("TestScripts/secret$"),
	},
	{
		"secret-removed-by-agents", "secrets", "cmd/mbox/cmd_secret.go",
		"return sealing.byName(ctx, s, o.agent, func(box *mailbox.Box, agent string) error {\n\t\t\t\to.agent = agent\n\t\t\t\treturn o.remove(", "return s.with(ctx, func(box *mailbox.Box) error {\n\t\t\t\treturn o.remove(",
		mboxTest("TestScripts/secret$"),
	},
	{
		"secret-shown-while-typed", "secrets", "cmd/mbox/cmd_secret.go",
		"term.IsTerminal(int(s.in.Fd()))", "false",
		mboxTest("TestSecretIsTyped$"),
	},
	{
		"secret-leaves-the-terminal-dark", "secrets", "cmd/mbox/cmd_secret.go",
		"errors.Join(context.Cause(ctx), term.Restore(fd, before))", "errors.Join(context.Cause(ctx), term.Restore(-1, before))",
		mboxTest("TestSecretIsTyped$"),
	},
	{
		"secret-identity-in-a-backup", "secrets", identityGo,
		"if !keys {", "if false {",
		mboxTest("TestScripts/secret$"),
	},
	{
		"secret-not-restored-untold", "secrets", "cmd/mbox/cmd_restore.go",
		"errors.Is(err, secret.ErrIdentity)", "errors.Is(err, secret.ErrUnknown)",
		mboxTest("TestScripts/secret$"),
	},
	{
		"secret-identity-moved-unseen", "secrets", identityGo,
		"if err == nil && kept != string(text) {", "if err == nil && kept == \"\" {",
		secretTest("TestMoveRefused$"),
	},
	{
		"secret-identity-left-behind", "secrets", identityGo,
		"\tif err == nil {\n\t\terr = durable.Replace(Identity(dir), says", "\tif err == nil && to == InFile {\n\t\terr = durable.Replace(Identity(dir), says",
		secretTest("TestMoveFails$"),
	},
	{
		"secret-identity-forgotten-first", "secrets", identityGo,
		"\tsays := text\n", "\tsays := text\n\tif to == InFile {\n\t\t_ = ring.Delete(ctx, entry)\n\t}\n",
		secretTest("TestMoveFails$"),
	},
	{
		"secret-identity-of-another-home", "secrets", identityGo,
		"append([]byte(dir+\"\\x00\"), text...)", "append([]byte(\"\\x00\"), text...)",
		secretTest("TestMoveOfCopies$"),
	},
	{
		"secret-identity-between", "secrets", identityGo,
		"again == nil && now.In == InFile", "false && again == nil && now.In == InFile",
		secretTest("TestReadWhileMoved$"),
	},
	{
		"secret-identity-lost-in-the-keyring", "secrets", identityGo,
		"if at.In == InKeyring {\n\t\treturn text, place", "if false {\n\t\treturn text, place",
		secretTest("TestMoveMakes$"),
	},
	{
		"secret-any-account", "secrets", identityGo,
		"if !accountForm().MatchString(at.Account) {", "if false {",
		secretTest("TestDamagedPointer$"),
	},
	{
		"secret-asks-a-keyring-for-each", "secrets", secretGo,
		"keys == nil && locked == nil {", "keys == nil {",
		secretTest("TestNoKeyring$"),
	},
	{
		"keyring-waits-for-ever", "secrets", keyringGo,
		"\tctx, cancel := context.WithTimeoutCause(ctx, most, late)", "\t_ = late\n\tctx, cancel := context.WithCancel(ctx)",
		command{"agents/secret/keyring", "TestSilent$"},
	},
	{
		"keyring-asks-again", "secrets", keyringGo,
		"\t\t<-turn\n\t\tanswered <- answer{text, err}\n\t}()", "\t\tanswered <- answer{text, err}\n\t}()\n\t<-turn",
		command{"agents/secret/keyring", "TestSilent$"},
	},
	{
		"keyring-starts-a-bus", "secrets", keyringGo,
		"!strings.HasPrefix(at, \"autolaunch:\")", "true",
		command{"agents/secret/keyring", "TestNone$"},
	},
	{
		"secret-no-identity-with-the-keys", "secrets", "mailbox/backup/backup.go",
		"text, given := c.from.Texts[it.name]; given {", "text, given := c.from.Texts[it.name]; given && false {",
		mboxTest("TestScripts/secret_keyring$"),
	},
	{
		"secret-identity-moved-by-agents", "secrets", "cmd/mbox/cmd_secret_identity.go",
		"return sealing.with(ctx, s,", "return s.with(ctx,",
		mboxTest("TestScripts/secret_keyring$"),
	},
	{
		"secret-in-a-record", "secrets", "cmd/mbox/cmd_secret.go",
		"secretSet(o.agent, name, made))", "secretSet(o.agent, name+\" \"+value, made))",
		mboxTest("TestScripts/memory_exec$"),
	},
	{
		"secret-of-a-brain", "secrets", "agents/brain/exec.go",
		"cmd.Env = append(cmd.Env, secrets...)", "_ = secrets",
		command{"agents/brain", "TestExecUnlocks$"},
	},
	{
		"backup-of-passwords", "secrets", "cmd/mbox/cmd_backup.go",
		"for _, name := range o.left {\n\t\tinstead[name] = \"\"\n", "for _, name := range o.left {\n\t\tdelete(instead, name)\n",
		mboxTest("TestScripts/memory_postgres$"),
	},
}
