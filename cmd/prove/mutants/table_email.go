package main

// emailTest is a test of the channel for e-mail.
func emailTest(run string) command { return command{"agents/chat/email", run} }

// emailMutants break what the e-mail bridge promises about senders, loss and loops.
var emailMutants = []mutant{
	{
		"email-seen-before-kept", "email", "agents/chat/email/receive.go",
		"if err := in.Keep(ctx, p.String()); err != nil || ignored != \"\" {\n\t\treturn err\n\t}\n\tvar no *imap.Error\n\tif err := s.seen(ctx, uid); errors.As(err, &no) {",
		"var no *imap.Error\n\terr = s.seen(ctx, uid)\n\tif err := in.Keep(ctx, p.String()); err != nil || ignored != \"\" {\n\t\treturn err\n\t}\n\tif errors.As(err, &no) {",
		emailTest("TestAMailIsSeenWhenItsPlaceIsKept"),
	},
	{
		"email-kept-before-taken", "email", "agents/chat/email/receive.go",
		"if ignored != \"\" {\n", "if err := in.Keep(ctx, p.String()); err != nil {\n\t\treturn err\n\t}\n\tif ignored != \"\" {\n",
		emailTest("TestAKeptPlaceLosesNothing"),
	},
	{
		"email-new-numbers-go-on", "email", "agents/chat/email/receive.go",
		"return place{box.UIDValidity, 0, box.UIDNext, p.since}, true, nil", "return place{box.UIDValidity, p.uid, box.UIDNext, p.since}, true, nil",
		emailTest("TestNewNumbersAreReadAgain"),
	},
	{
		"email-any-length", "email", "agents/chat/email/connect.go",
		"l.left.Add(-int64(n))", "l.left.Add(0)",
		emailTest("TestABadServerIsAnError"),
	},
	{
		"email-two-senders", "email", "agents/chat/email/mail.go",
		"if len(all) != 1 {", "if len(all) == 0 {",
		emailTest("TestTheSenderIsOneAddress"),
	},
	{
		"email-a-name-like-an-address", "email", "agents/chat/email/mail.go",
		"&& !strings.EqualFold(name, written):", "&& name == written:",
		emailTest("TestTheSenderIsOneAddress"),
	},
	{
		"email-anybody-proves", "email", "agents/chat/email/proof.go",
		"if !strings.EqualFold(name, r.authserv) {", "if name == \"\" {",
		emailTest("TestProofs"),
	},
	{
		"email-any-field-proves", "email", "agents/chat/email/proof.go",
		"if !ok {\n\t\t\treturn \"\"\n\t\t}", "if !ok {\n\t\t\tcontinue\n\t\t}",
		emailTest("TestProofs"),
	},
	{
		"email-any-domain-proves", "email", "agents/chat/email/proof.go",
		"return strings.EqualFold(value[strings.LastIndexByte(value, '@')+1:], domain)", "return strings.HasPrefix(value[strings.LastIndexByte(value, '@')+1:], domain)",
		emailTest("TestProofs"),
	},
	{
		"email-comments-prove", "email", "agents/chat/email/proof.go",
		"if b == '\"' {\n\t\t\t\tword", "if b == '(' {\n\t\t\t\tcontinue\n\t\t\t}\n\t\t\tif b == '\"' {\n\t\t\t\tword",
		emailTest("TestProofs"),
	},
	{
		"email-machines-are-answered", "email", "agents/chat/email/mail.go",
		"return strings.TrimSpace(word) != \"no\"", "return strings.TrimSpace(word) == \"yes\"",
		emailTest("TestMachinesAreNotAnswered"),
	},
	{
		"email-answers-unmarked", "email", "agents/chat/email/send.go",
		"h.Set(\"Auto-Submitted\", \"auto-replied\")", "h.Del(\"Auto-Submitted\")",
		emailTest("TestANoticeIsAMail"),
	},
	{
		"email-each-try-another-id", "email", "agents/chat/email/send.go",
		"id = n.Key + \"@\" + c.domain", "id = n.Key + time.Now().Format(\"150405.000000\") + \"@\" + c.domain",
		emailTest("TestTheSameNoticeHasTheSameID"),
	},
	{
		"email-ids-of-others", "email", "agents/chat/email/mail.go",
		"return id + \"#\" + hex.EncodeToString(sum[:12])", "return id + \"#\" + hex.EncodeToString(sum[:0])",
		emailTest("TestAMailKeepsItsID"),
	},
	{
		"email-password-in-the-clear", "email", "agents/chat/email/email.go",
		"plain: !tls && (insecure || loopback(u.Hostname()))", "plain: !tls",
		emailTest("TestNoPasswordInTheClear"),
	},
	{
		"email-password-in-errors", "email", "agents/chat/email/connect.go",
		"strings.NewReplacer(c.password,", "strings.NewReplacer(plain,",
		emailTest("TestWrongCredentialsAreASetup"),
	},
	{
		"email-refused-is-tried-again", "email", "agents/chat/email/send.go",
		"return fmt.Errorf(\"%w: %w\", chat.ErrRefused, err)", "return err",
		emailTest("TestRefusalsOfTheServer"),
	},
}
