package main

const (
	recoverGo  = "mailbox/recover.go"
	goneGo     = "mailbox/gone.go"
	tasksGo    = "mailbox/recover_tasks.go"
	restGo     = "mailbox/recover_rest.go"
	restoreGo  = "mailbox/recover_journal.go"
	stillGo    = "mailbox/backup.go"
	backupGo   = "mailbox/backup/backup.go"
	unpackGo   = "mailbox/backup/unpack.go"
	evidenceGo = "mailbox/evidence.go"
)

func backupTest(run string) command { return command{"mailbox/backup", run} }

// recoveryMutants break recovery, backup and restore.
var recoveryMutants = []mutant{
	{
		"locks-not-remade", "3", recoverGo,
		"r.made, err = home.MakeLocks(dir, home.RemadeSlot, o.Sync); err != nil", "r.made, err = 0, nil; err != nil",
		boxTest("TestRule03_LockFileGone"),
	},
	{
		"leases-outlive-the-boot", "13", restGo,
		"over := r.restarted || r.copied", "r.restarted = false\n\tover := r.copied",
		boxTest("TestRule13_LeasesEndWithTheBoot"),
	},
	{
		"leases-end-with-any-recovery", "13", restGo,
		"over := r.restarted || r.copied", "r.restarted = true\n\tover := true",
		boxTest("TestRule13_LeasesEndWithTheBoot"),
	},
	{
		"another-home-is-written-to", "22", "mailbox/home/places.go",
		"\tif err == nil {\n\t\terr = p.Same()\n\t}\n", "",
		boxTest("TestReplacedHome"),
	},
	{
		"work-ended-by-a-copy", "22", restGo,
		"over := r.restarted || r.copied", "over := r.restarted",
		boxTest("TestRule22_CopyEndsNoWork"),
	},
	{
		"voided-epoch-used-again", "10", tasksGo,
		"\tt.Mbox.Epoch = p.m.Epoch\n", "",
		boxTest("TestRule10_VoidedClaim"),
	},
	{
		"claim-never-voided", "10", tasksGo,
		"return r.void(s, p, f)", "continue",
		boxTest("TestRule10_VoidedClaim"),
	},
	{
		"trail-without-the-pick", "10", tasksGo,
		"\tt.Audit.StateChanges = append(t.Audit.StateChanges, StateChange{From: Pending, To: InProgress, By: p.agent, At: task.At(p.at), Reason: task.StateReason(p.m.Reason)})\n", "",
		boxTest("TestRule10_VoidedClaim"),
	},
	{
		"cut-content-thrown-away", "16", restGo,
		"if cut, err := r.b.ledger.Cut(tx); !cut || err != nil {", "if cut, err := r.b.ledger.Cut(tx); cut || err != nil {",
		boxTest("TestRule21_StagedContentOfACutLine"),
	},
	{
		"uncommitted-content-kept", "16", restGo,
		"if cut, err := r.b.ledger.Cut(tx); !cut || err != nil {", "if _, err := r.b.ledger.Cut(tx); err != nil {",
		boxTest("TestRule16_RecoveryOfWhatWasOnlyStaged"),
	},
	{
		"anybodys-name-stands", "16", "mailbox/evidence/evidence.go",
		" && strings.EqualFold(filepath.Base(path), t.ID.File())", "",
		boxTest("TestRule16_Standing"),
	},
	{
		"torn-task-stands", "16", "mailbox/evidence/evidence.go",
		"unread == nil && json.Unmarshal(data, &t) == nil && ", "unread == nil && (json.Unmarshal(data, &t) == nil || true) && ",
		boxTest("TestRule16_Standing"),
	},
	{
		"own-name-minds-case", "16", "mailbox/evidence/evidence.go",
		"strings.EqualFold(filepath.Base(path), t.ID.File())", "filepath.Base(path) == t.ID.File()",
		boxTest("TestRule16_Standing"),
	},
	{
		"own-name-does-not-stand", "16", "mailbox/evidence/evidence.go",
		"if err != nil || slices.Contains(txs, t.tx) {", "if err != nil || slices.Contains(txs[:0], t.tx) {",
		boxTest("TestRule16_Standing"),
	},
	{
		"records-do-not-stand", "16", "mailbox/evidence/evidence.go",
		"home.Paths(filepath.Join(e.home, \"decisions\"), filepath.Join(e.home, \"changes\"))", "home.Paths()",
		boxTest("TestRule16_Standing"),
	},
	{
		"quarantine-stands", "16", "mailbox/evidence/evidence.go",
		"for path, err := range home.Paths(dirs...) {", "for path, err := range home.Paths(append(dirs, filepath.Join(e.home, \"tasks\", \"quarantine\"))...) {",
		boxTest("TestRule16_Standing"),
	},
	{
		"ledger-unasked-by-recovery", "21", recoverGo,
		"func (r *recovery) ledger() error { return r.b.ledger.Recover(r.ctx) }", "func (r *recovery) ledger() error { return nil }",
		boxTest("TestRule21_RecoverNeedsALedger|TestRule21_RecoverLeavesDamage|TestRule21_StagedContentOfACutLine"),
	},
	{
		"ledger-recovered-after-the-tasks", "21", recoverGo,
		"r.journal, r.intact, r.ledger, b.markRecovery, r.sayRemade, r.fold, r.asides, r.walk, r.gone, r.tasks, r.records, r.shards, r.staged, r.strays", "r.journal, b.markRecovery, r.sayRemade, r.fold, r.asides, r.walk, r.gone, r.tasks, r.records, r.shards, r.staged, r.ledger",
		boxTest("TestRule21_RecoverNeedsALedger|TestRule21_RecoverLeavesDamage|TestRule21_StagedContentOfACutLine"),
	},
	{
		"copies-unmended", "17", recoverGo,
		", r.dropSpares, r.copies) {", ", r.dropSpares) {",
		boxTest("TestRule17_OpenGoesOnWithRecovery"),
	},
	{
		"recovery-stops-at-a-shard", "21", restGo,
		"err != nil && r.stands(d) {", "err != nil && d.TX == \"\" {",
		boxTest("TestRule21_RecoveryLeavesAShard"),
	},
	{
		"recovery-stops-at-a-task-of-a-shard", "21", tasksGo,
		"bad == nil && set && d.TX == r.last[id].m.TX {", "bad == nil && set && d.TX == \"\" {",
		boxTest("TestRule21_RecoveryLeavesAShard"),
	},
	{
		"unreadable-task-stops-recovery", "21", tasksGo,
		"\t\treturn r.passBy(err) // it lies in its place, and nothing of it anywhere else\n", "\t\treturn err\n",
		command{"cmd/mbox", "TestRecoverPastUnreadableFiles"},
	},
	{
		"unreadable-record-stops-recovery", "21", restGo,
		"if err != nil && !r.stagesRecord(file) {", "if false {",
		command{"cmd/mbox", "TestRecoverPastUnreadableFiles"},
	},
	{
		"unreadable-copy-stops-recovery", "29", restGo,
		"if errors.Is(err, fs.ErrPermission) { // a copy", "if errors.Is(err, fs.ErrExist) { // a copy",
		command{"cmd/mbox", "TestRecoverPastUnreadableFiles"},
	},
	{
		"unreadable-files-stop-the-next-verb", "21", recoverGo,
		"\t\tb.unread = unread\n\t\tb.mu.Unlock()\n\t\treturn nil\n", "\t\tb.unread = unread\n\t\tb.mu.Unlock()\n\t\treturn err\n",
		command{"cmd/mbox", "TestRecoverPastUnreadableFiles"},
	},
	{
		"unreadable-files-not-named", "21", recoverGo,
		"if err := r.unheard(); err != nil || len(r.unread) == 0 {", "if err := r.unheard(); true {",
		command{"cmd/mbox", "TestRecoverPastUnreadableFiles"},
	},
	{
		"staged-content-of-an-unreadable-task-swept", "21", tasksGo,
		"case err != nil && len(p.others) == 0 && !begun:", "case err != nil:",
		command{"cmd/mbox", "TestUnreadableInTheWay"},
	},
	{
		"staged-content-of-an-unreadable-record-swept", "21", restGo,
		"if err != nil && !r.stagesRecord(file) {", "if err != nil {",
		command{"cmd/mbox", "TestUnreadableInTheWay"},
	},
	{
		"records-unrecovered", "21", restGo,
		"err := r.b.placeRecord(last[file])", "err := r.ctx.Err()",
		boxTest("TestRule21_RecordIsRecovered"),
	},
	{
		"mark-lifted-before-the-journal", "19", recoverGo,
		"{b.markRecovery, r.journal, r.intact, func() error", "{b.markRecovery, func() error",
		boxTest("TestRecoverAfterIOError"),
	},
	{
		"lost-ledger-recovered", "14,16", recoverGo,
		"append(first, r.journal, r.intact, r.ledger,", "append(first, r.journal, r.ledger,",
		boxTest("TestRule14_LedgerLost"),
	},
	{
		"older-head-believed", "14", "mailbox/queue/follow.go",
		"if err := q.o.Ledger.CheckJournal(); err != nil {", "if err := error(nil); err != nil {",
		boxTest("TestRule14_OlderLedgerAndHeadRecord"),
	},
	{
		"drop-stops-the-mailbox", "9", "mailbox/evidence/evidence.go",
		"!(notPending && home.StateAt", "!(path != \"\" && home.StateAt",
		boxTest("TestRule09_DropWithTransactionBesideNothing"),
	},
	{
		"older-copy-taken-for-the-newest", "9,22", "mailbox/evidence/evidence.go",
		`case !moved && (sure`, `case (sure`,
		boxTest("TestRule09_OlderCopyPutBack"),
	},
	{
		"artifact-is-evidence", "9", "mailbox/evidence/evidence.go",
		"for path, err := range home.Paths(dirs...) {", "more, _ := filepath.Glob(filepath.Join(e.home, \"tasks\", \"artifacts\", \"*\"))\n\t\tfor path, err := range home.Paths(append(dirs, more...)...) {",
		boxTest("TestRule09_ArtifactWithTransaction"),
	},
	{
		"second-identity", "22", boxGo,
		"\tif err := home.CheckVacant(dir); err != nil {\n\t\treturn err\n\t}\n", "",
		boxTest("TestRule22_MboxDeleted"),
	},
	{
		"whole-ledger-forgotten", "21", "mailbox/forget.go",
		`if why == "" && !errors.Is(`, `if why == "-" && !errors.Is(`,
		boxTest("TestRule21_ForgetLedger"),
	},
	{
		"journal-unreplayed", "10", recoverGo,
		"append(first, r.journal, r.intact, r.ledger,", "append(first, r.intact, r.ledger,",
		boxTest("TestRule10_PowerCut"),
	},
	{
		"ledger-before-the-journal", "16", recoverGo,
		"append(first, r.journal, r.intact, r.ledger,", "append(first, r.ledger, r.journal, r.intact,",
		boxTest("TestRule10_PowerCut"),
	},
	{
		"stranger-overwritten-by-replay", "8,21", restoreGo,
		"(!newest || edited && !r.restarted)", "(!newest || !edited && len(remains) == 0 && !r.restarted)",
		boxTest("TestRule08_ReplayLeavesAStranger"),
	},
	{
		"broken-edit-costs-the-content", "21", restoreGo,
		"edited = edited || v.edited(data)", "edited = true",
		boxTest("TestRule21_ReplayUndoesWhatBroke"),
	},
	{
		"tasks-unflushed-after-an-error", "19", restoreGo,
		"case there == \"\" || r.o.AfterIOError && newest:", "case there == \"\":",
		boxTest("TestRule19_RecoverAfterIOErrorWritesAnew"),
	},
	{
		"recoveries-side-by-side", "20", recoverGo,
		"\tif err := b.recoveries.Acquire(ctx, 10*time.Minute); err != nil {\n\t\treturn home.LockError(err)\n\t}\n\tdefer b.recoveries.Unlock()\n", "",
		boxTest("TestRule20_OneRecovery"),
	},
	{
		"asked-recovery-beside-another", "20", recoverGo,
		"\tif err := b.recoveries.Acquire(ctx, b.o.LockWait); err != nil {\n\t\treturn Recovered{}, home.LockError(err)\n\t}\n\tdefer b.recoveries.Unlock()\n", "",
		boxTest("TestRule20_OneRecovery"),
	},
	{
		"recovered-twice", "20", recoverGo,
		"err != nil || was == now && !anyway {", "err != nil || was == now && was.Boot == \"\" && !anyway {",
		boxTest("TestRule20_OneRecovery"),
	},
	{
		"recovery-without-shards", "20", restGo,
		"err := r.under(number, func(s *shard) error { return do(s, name) }); err != nil", "err := do(&shard{number: number, lock: r.b.shards[number]}, name); err != nil",
		boxTest("TestRule20_OneRecovery"),
	},
	{
		"recovery-unmarked", "20", recoverGo,
		"r.ledger, b.markRecovery, r.sayRemade, r.fold,", "r.ledger, r.sayRemade, r.fold,",
		boxTest("TestRule20_OrderOfRecovery"),
	},
	{
		"boot-written-first", "20", recoverGo,
		"r.sayMoved, r.leases, ", "r.sayMoved, func() error { return home.WriteBoot(b.home, r.now, b.o.Sync) }, r.leases, ",
		boxTest("TestRule20_OrderOfRecovery"),
	},
	{
		"gone-is-not-asked", "9", shardGo,
		"\tif err := b.places.Check(); err != nil {\n\t\treturn nil, err\n\t}\n\treturn b.intents.Last()", "\treturn b.intents.Last()",
		boxTest("TestRule09_FolderGone|TestRule09_ManyGone"),
	},
	{
		"all-gone-is-deleted", "9", goneGo,
		"if len(ids) > byHandAtMost {", "if len(ids) > 1000 {",
		boxTest("TestRule09_ManyGone"),
	},
	{
		"some-are-back", "9", goneGo,
		"case r.was.Stopped != \"\":", "case false:",
		boxTest("TestRule09_ManyGone"),
	},
	{
		"gone-from-another-folder", "22", goneGo,
		"most, why = 0, \"; \"", "most, why = byHandAtMost, \"; \"",
		boxTest("TestRule09_FolderGone"),
	},
	{
		"ctime-of-this-moment-is-enough", "22", placesGo,
		"p.now().UnixNano()-now.changed > int64(coarseTime) && ", "",
		command{"mailbox/home", "TestRule22_FolderGoneUnseen"},
	},
	{
		"symlink-is-enough", "22", placesGo,
		" && p.ownFolders() {", " {",
		command{"mailbox/home", "TestRule22_FolderGoneUnseen"},
	},
	{
		"gone-judged-behind-the-journal", "22", recoverGo,
		"r.makePrivate, r.goneFirst}", "r.makePrivate}",
		boxTest("TestRule22_GoneIsNotReplayed"),
	},
	{
		"boot-never-written", "20,22", recoverGo,
		"if err := home.WriteBoot(b.home, r.now, b.o.Sync); err != nil {", "if err := error(nil); err != nil {",
		boxTest("TestRule22_HomeMoved"),
	},
	{
		"boot-unread", "22", recoverGo,
		"\tif err != nil || was == now {\n\t\treturn err\n\t}\n\tif was.SameAs(now)", "\tif err != nil || was.Boot == now.Boot {\n\t\treturn err\n\t}\n\tif was.SameAs(now)",
		boxTest("TestRule22_HomeMoved"),
	},
	{
		"inode-is-no-matter", "22", recoverGo,
		" || r.was.Inode != r.now.Inode", "",
		boxTest("TestRule22_HomeMoved"),
	},
	{
		"move-unsaid", "22", restGo,
		"if !r.out.Moved {", "if !r.out.Moved || !r.restarted {",
		boxTest("TestRule22_HomeMoved"),
	},
	{
		"boot-in-the-backup", "22", backupGo,
		"rest == \"VERSION\" ||", "rest == \"VERSION\" || rest == \"boot\" ||",
		boxTest("TestRule23_BackupIsOfOneMoment"),
	},
	{
		"backup-without-locks", "23", stillGo,
		"range home.Shards {", "range home.Shards - 255 {",
		boxTest("TestRule23_BackupIsOfOneMoment"),
	},
	{
		"backup-in-descending-order", "23", stillGo,
		"s, err := b.lockShardNumber(ctx, n)", "s, err := b.lockShardNumber(ctx, home.Shards-1-n)",
		boxTest("TestRule23_BackupLocksInOrder"),
	},
	{
		"backup-without-a-last-round", "23", backupGo,
		"\t\t_, err := c.round(ctx)\n\t\treturn err\n\t})", "\t\treturn nil\n\t})",
		boxTest("TestRule23_BackupIsOfOneMoment"),
	},
	{
		"backup-of-a-growing-ledger", "23", stillGo,
		"return b.ledger.Frozen(ctx, do)", "return do(b.ledger.End())",
		boxTest("TestRule23_BackupIsOfOneMoment"),
	},
	{
		"backup-written-under-the-locks", "23", backupGo,
		"if c.still && len(c.held) < maxHeld {", "if c.still && len(c.held) < 1 {",
		backupTest("TestRule23_SlowBackupHoldsNobodyUp"),
	},
	{
		"backup-follows-links", "23", backupGo,
		"return durable.OpenRegularBelow(s.Home, name)", "return durable.OpenRegular(s.Home + \"/\" + name)",
		backupTest("TestBackupFollowsNoLink"),
	},
	{
		"backup-with-what-went-away", "23", backupGo,
		"if was.round != c.report.Rounds {", "if was.round < 0 {",
		backupTest("TestRule23_BackupOfWhatMoves"),
	},
	{
		"restore-unread-to-its-end", "23", unpackGo,
		"return ends(t, from)", "return nil",
		backupTest("TestRule23_DamagedBackup"),
	},
	{
		"restore-of-other-bytes", "23", unpackGo,
		"case it.size != line.Size || it.sum != line.SHA256:", "case it.size != line.Size:",
		backupTest("TestRule23_ForgedBackup"),
	},
	{
		"restore-of-what-no-check-refuses", "23", unpackGo,
		"if len(part) > 255 {", "if len(part) > 1<<12 {",
		backupTest("TestRule23_ForgedBackup"),
	},
	{
		"removed-entries-excused", "21", "mailbox/recover_rest.go",
		"	if !r.o.AdoptDeleted {\n		return nil\n	}\n	known", "	known",
		boxTest("TestGoneIsNoExcuse"),
	},
	{
		"removed-entries-for-ever", "21", "mailbox/recover_rest.go",
		"if !isThere(comes) && !isThere(", "if isThere(comes) && !isThere(",
		boxTest("TestRemovedFromQuarantine"),
	},
	{
		"restore-of-what-was-superseded", "23", unpackGo,
		"\t\tif !it.counts {\n\t\t\tcontinue\n\t\t}\n\t\tin, file", "\t\tin, file",
		backupTest("TestRule23_BackupOfWhatMoves"),
	},
	{
		"archived-in-the-month-of-now", "21", "mailbox/home/home.go",
		"archivedAt.UTC().Format(\"2006-01\")", "time.Now().UTC().Format(\"2006-01\")",
		boxTest("TestRule21_MonthOfTheLine"),
	},
	{
		"lost-is-said-again", "21", tasksGo,
		"\tif p.gone {\n\t\treturn nil\n\t}\n", "",
		boxTest("TestRule21_RecoverLostTwice"),
	},
	{
		"archive-not-searched", "21", "mailbox/home/files.go",
		"\t\tdirs = append(dirs, filepath.Join(home, \"tasks\", \"archive\", m))\n", "\t\t_ = m\n",
		boxTest("TestRule21_MonthOfTheLine"),
	},
	{
		"old-copy-removed-unseen", "21", tasksGo,
		"return r.lost(s, p)", "return r.clear(s, p)",
		boxTest("TestRule10_VoidedClaim"),
	},
	{
		"loss-unsaid", "21", tasksGo,
		"return r.b.note(r.ctx, s, alarmOf(p.id, \"lost\", why, why))", "_ = why\n\treturn nil",
		boxTest("TestRule21_LossIsSaid"),
	},
	{
		"upgrade-beside-a-lease", "38", "mailbox/home/upgrade.go",
		"if held, err := Locked(path); err == nil && held {", "if held, err := Locked(path); err == nil && held && name == \"\" {",
		boxTest("TestRule38_OldProcessesAreLeftAlone"),
	},
	{
		"upgrade-beside-a-router", "38", "mailbox/home/upgrade.go",
		"{oldRecover, \"router\", \"delegate\"", "{oldRecover, \"delegate\"",
		boxTest("TestRule38_OldProcessesAreLeftAlone"),
	},
	{
		"upgrade-beside-a-transition", "38", "mailbox/home/upgrade.go",
		"if err := u.hold(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {", "if err := u.hold(ctx, name); err != nil && name != \"shard-ff\" && !errors.Is(err, fs.ErrNotExist) {",
		boxTest("TestRule38_OldProcessesAreLeftAlone"),
	},
	{
		"upgrade-leaves-the-old-locks", "38,39", upgradeGo,
		"if err := durable.RemoveIfThere(LockPath(u.dir, name)); err != nil {", "if err := durable.RemoveIfThere(LockPath(u.dir, name)); err != nil || name == \"shard-00\" {",
		boxTest("TestRule39_UpgradeIsGoneOnWith"),
	},
	{
		"upgrade-not-gone-on-with", "39", "mailbox/home/upgrade.go",
		"v.Format == Format && !OldLocksStand(dir) {\n\t\treturn err", "v.Format == Format {\n\t\treturn err",
		boxTest("TestRule39_FinishedUnderTheOldLocks"),
	},
	{
		"version-before-the-locks", "39", upgradeGo,
		"\t\tfunc() error { return u.make(v) },\n\t\tfunc() error { return WriteVersion(dir, v.MailboxID, m) },\n", "\t\tfunc() error { return WriteVersion(dir, v.MailboxID, m) },\n\t\tfunc() error { return u.make(v) },\n",
		boxTest("TestRule39_Order"),
	},
	{
		"upgrade-untold", "39", upgradeGo,
		"MakeLocks(u.dir, upgradedSlot, u.mode)", "MakeLocks(u.dir, BlankSlot, u.mode)",
		boxTest("TestRule39_UpgradeIsGoneOnWith"),
	},
	{
		"head-of-a-later-format", "39", "audit/head.go",
		"if h.Format > HomeFormat {\n\t\treturn Head{}, fmt", "if h.Format > 9+HomeFormat {\n\t\treturn Head{}, fmt",
		command{"audit", "TestRule39_LaterHead"},
	},
	{
		"no-generation", "25", "audit/journal.go",
		"journalAt{l.journal.ino, journalBlock, newGeneration()}", "journalAt{l.journal.ino, journalBlock, 1}",
		command{"audit", "TestRule25_Generation"},
	},
	{
		"salt-of-any-form", "7", "mailbox/home/home.go",
		"err != nil || n != saltBytes {", "err != nil && n > saltBytes {",
		boxTest("TestSaltDamaged"),
	},
	{
		"salt-cut-by-a-byte", "7", "mailbox/home/home.go",
		"err != nil || n != saltBytes {", "err != nil || n < 0 {",
		boxTest("TestSaltDamaged"),
	},
	{
		"damaged-salt-stays", "22", "mailbox/rebuild.go",
		"err := durable.Rename(salt, salt+", "err := durable.Rename(salt+\".\", salt+",
		boxTest("TestSaltDamaged"),
	},
	{
		"key-of-no-line-is-new", "7", "mailbox/submit.go",
		"if err == nil && e == nil && !b.looks {", "if false {",
		boxTest("TestKeyOfALostDay"),
	},
	{
		"drop-of-a-lost-key-stops-all", "7", "mailbox/admit.go",
		"if errors.Is(err, errUntold) {", "if false {",
		boxTest("TestKeyOfALostDay"),
	},
}
