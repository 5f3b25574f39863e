package main

const (
	transitionGo = "mailbox/transition.go"
	shardGo      = "mailbox/shard.go"
	upgradeGo    = "mailbox/home/upgrade.go"
	settleGo     = "mailbox/settle.go"
	submitGo     = "mailbox/submit.go"
	claimGo      = "mailbox/claim.go"
	leaseGo      = "mailbox/lease/lease.go"
	verbsGo      = "mailbox/verbs.go"
	viewGo       = "mailbox/view.go"
	quarantineGo = "mailbox/quarantine.go"
	artifactGo   = "mailbox/artifact/artifact.go"
	leftGo       = "mailbox/artifact.go"
	boxGo        = "mailbox/box.go"
	placesGo     = "mailbox/home/places.go"
)

func boxTest(run string) command { return command{"mailbox", run} }

// mailboxMutants break locks and transitions.
var mailboxMutants = []mutant{
	{
		"shard-minds-case", "1", "mailbox/home/locks.go",
		"io.WriteString(h, strings.ToLower(name))", "io.WriteString(h, strings.TrimSpace(name))",
		boxTest("TestRule01_ShardFoldsCase"),
	},
	{
		"key-without-its-shard", "1", submitGo,
		"numbers = append(numbers, home.Shard(\"key:\"+t.Mbox.IdempotencyKey))", "numbers = append(numbers, id)",
		boxTest("TestRule01_SendHoldsItsShards"),
	},
	{
		"shards-in-any-order", "1", submitGo,
		"\tslices.Sort(numbers)\n", "",
		boxTest("TestRule01_SendHoldsItsShards"),
	},
	{
		"key-in-clear", "1", submitGo,
		"return b.saltedHash(\"key\", t.Mbox.IdempotencyKey)", "return t.Mbox.IdempotencyKey",
		boxTest("TestRule01_KeyInTheLedger"),
	},
	{
		"hash-without-salt", "1", "mailbox/books.go",
		"audit.Hash([]byte(string(b.salt) + kind + \"\\n\" + text))", "audit.Hash([]byte(kind + \"\\n\" + text))",
		boxTest("TestRule01_KeyInTheLedger"),
	},
	{
		"drawn-id-untried", "1", submitGo,
		"ended || !errors.Is(err, ErrConflict) {", "ended || id == \"\" || err == nil {",
		boxTest("TestRule01_SerialIsTried"),
	},
	{
		"missing-lock-is-no-fault", "3", "mailbox/home/locks.go",
		"if errors.Is(err, os.ErrNotExist) && !errors.Is(err, audit.ErrUnwritten) || errors.Is(err, durable.ErrReplaced) {", "if errors.Is(err, durable.ErrReplaced) {",
		boxTest("TestRule03_LockFileGone"),
	},
	{
		"holder-unnamed", "3", shardGo,
		"err = fmt.Errorf(\"%w%s\", err, b.intents.Holder(number))", "_ = fmt.Errorf",
		boxTest("TestRule01_SendHoldsItsShards"),
	},
	{
		"no-intent-record", "5", shardGo,
		"\treturn home.WriteSlot(s.slots, s.number, s.slot)", "\treturn nil",
		boxTest("TestRule05_KilledSendIsSeen"),
	},
	{
		"record-after-staging", "5", transitionGo,
		"\t\tif err := s.mark(d); err != nil {\n\t\t\treturn err\n\t\t}\n\t}\n\tentry, payload, err := stage()\n", "\t}\n\tentry, payload, err := stage()\n\tif err := s.mark(d); err != nil {\n\t\treturn err\n\t}\n",
		boxTest("TestRule08_OrderOfTransition"),
	},
	{
		"record-never-blank", "5", transitionGo,
		"\t\terr = s.clean()\n", "\t\terr = nil\n",
		boxTest("TestRule08_OrderOfTransition"),
	},
	{
		"damaged-record-is-ours", "5,30", "mailbox/home/intent.go",
		"if err != nil || !bytes.Equal(d.Encode(), slot) {", "if err != nil {",
		boxTest("TestRule30_DamagedSlots"),
	},
	{
		"nuls-are-blank", "30", "mailbox/home/intent.go",
		"bytes.Equal(slot, BlankSlot)", "len(bytes.Trim(slot, \" \\x00\\n\")) == 0",
		boxTest("TestRule30_DamagedSlots"),
	},
	{
		"anybodys-record-blanked", "30", shardGo,
		"if err == nil && bytes.Equal(slot, s.slot) {", "if err == nil && !bytes.Equal(slot, home.BlankSlot) {",
		boxTest("TestRule30_OnlyTheOwnRecordIsBlanked"),
	},
	{
		"overwritten-record-is-nothing", "30", shardGo,
		"return home.WriteSlot(s.slots, s.number, home.DoubtedSlot)", "return s.clean()",
		boxTest("TestRule30_RecordOverAnothers"),
	},
	{
		"intents-not-looked-at-again", "31", shardGo,
		"locks: []durable.Held{lock, slots}", "locks: []durable.Held{lock}",
		boxTest("TestRule31_IntentsReplaced"),
	},
	{
		"old-intents-kept", "5", placesGo,
		"\t\tp.other()\n\t\tp.mu.Lock()", "\t\tp.mu.Lock()",
		boxTest("TestRule05_IntentsMadeAnew"),
	},
	{
		"damaged-record-skipped", "5", settleGo,
		"err := b.recoverAll(ctx, true); err != nil", "err := error(nil); err != nil",
		boxTest("TestRule05_IntentThatHelpsNobody"),
	},
	{
		"settle-waits", "5", settleGo,
		"s, err := b.tryShard(ctx, slot.Number)", "s, err := b.lockShardNumber(ctx, slot.Number)",
		boxTest("TestRule05_IntentThatHelpsNobody"),
	},
	{
		"open-does-not-settle", "5", boxGo,
		"\t\terr = b.settleAll(ctx)\n", "",
		boxTest("TestRule05_KilledSendIsSeen"),
	},
	{
		"scan-does-not-settle", "5", "mailbox/scan.go",
		"func (b *Box) scan(ctx context.Context, folders []State, q *quota) (r ScanReport, err error) {\n\tif err := b.settleAll(ctx); err != nil {\n\t\treturn r, err\n\t}\n", "func (b *Box) scan(ctx context.Context, folders []State, q *quota) (r ScanReport, err error) {\n",
		boxTest("TestRule05_KilledSendIsSeen"),
	},
	{
		"look-does-not-settle", "5", "mailbox/scan.go",
		"\terr := b.settleAll(ctx)\n\tswitch {", "\terr := ctx.Err()\n\tswitch {",
		boxTest("TestRule05_KilledSendIsSeen"),
	},
	{
		"lock-does-not-settle", "5", shardGo,
		"if err = b.settle(ctx, s, d); err == nil {", "if _ = d; err == nil {",
		boxTest("TestRule05_KilledSendIsSeen"),
	},
	{
		"one-shard-stops-all", "5", settleGo,
		"case errors.Is(err, ErrUnsettled):", "case errors.Is(err, ErrUnsettled) && ctx == nil:",
		boxTest("TestRule05_ShardThatCannotBeSettled"),
	},
	{
		"io-error-stops-one-shard", "5", "mailbox/errors.go",
		"if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EBUSY) {", "if errors.Is(err, fs.ErrPermission) && errors.Is(err, syscall.EBUSY) {",
		boxTest("TestRule05_ShardThatCannotBeSettled"),
	},
	{
		"ledger-stops-one-shard", "5", "mailbox/errors.go",
		" && !strings.HasPrefix(path, \"audit/\")", "",
		boxTest("TestRule05_ShardThatCannotBeSettled"),
	},
	{
		"settle-without-flush", "5", settleGo,
		"\tif err := b.ledger.Flushed(ctx); err != nil {\n\t\treturn err\n\t}\n", "",
		boxTest("TestRule05_SettleFlushesFirst"),
	},
	{
		"settle-finishes-the-past", "5", settleGo,
		"if err != nil || last != nil && last.TX != m.TX {", "if err != nil || last == nil {",
		boxTest("TestRule05_StaleIntent"),
	},
	{
		"settle-leaves-what-is-staged", "5", settleGo,
		"\treturn b.sweepStaged(d)\n", "\treturn nil\n",
		boxTest("TestRule05_EveryWriteFails/complete"),
	},
	{
		"fail-with-any-code", "texts", verbsGo,
		"\tif err := task.CheckCode(fail.Code); err != nil {\n\t\treturn err\n\t}\n", "",
		mboxTest("TestScripts/work$"),
	},
	{
		"torn-append-is-undone", "6", transitionGo,
		"if err != nil && !errors.Is(err, audit.ErrUnwritten) {", "if err != nil && errors.Is(err, ErrReadOnly) {",
		boxTest("TestRule05_EveryWriteFails/complete"),
	},
	{
		"said-again-is-stale", "7", verbsGo,
		"if said != nil && ID(said.Task()) == id && verb != \"progress\" {", "if said != nil && verb == \"\" {",
		boxTest("TestRule07_OneTask"),
	},
	{
		"sent-again-is-a-conflict", "7", submitGo,
		"if e != nil && ID(e.Task()).Fold() == id.Fold() {", "if e != nil && request == \"\" {",
		boxTest("TestRule07_SendAgain"),
	},
	{
		"sent-again-whatever-it-says", "7", submitGo,
		"\tif e != nil && ID(e.Task()).Fold() == id.Fold() {\n\t\treturn ID(e.Task()), nil\n\t}\n", "\t_ = e\n\tif request != \"\" {\n\t\treturn id, nil\n\t}\n",
		boxTest("TestRule07_SendAgain"),
	},
	{
		"token-untested", "13", verbsGo,
		"f.Task.Mbox.Lease == nil || f.Task.Mbox.Lease.Token != c.token {", "f.Task.Mbox.Lease == nil {",
		boxTest("TestRule05_EveryWriteFails/late_result"),
	},
	{
		"late-result-thrown-away", "11", verbsGo,
		"if verb != \"complete\" && verb != \"fail\" {", "if verb != \"\" {",
		boxTest("TestRule11_FlushedBeforeTheLine"),
	},
	{
		"line-after-rename", "8", transitionGo,
		"\t\tline, err = b.say(ctx, s.locks, entry, payload)\n", "\t\tif m, ok := task.MoveOf(&entry); ok {\n\t\t\tif _, err := b.finish(ctx, s, ID(entry.Task()), m, time.Time{}, true); err != nil {\n\t\t\t\treturn err\n\t\t\t}\n\t\t}\n\t\tline, err = b.say(ctx, s.locks, entry, payload)\n",
		boxTest("TestRule08_OrderOfTransition"),
	},
	{
		"put-before-move-of-a-claim", "8", transitionGo,
		"\tcase p.m.Enters() == InProgress:\n\t\tif err := durable.Move", "\tcase p.m.Enters() == None:\n\t\tif err := durable.Move",
		boxTest("TestRule08_OrderOfTransition"),
	},
	{
		"move-before-put-of-a-result", "8", transitionGo,
		"\tcase p.m.Enters() == InProgress:\n\t\tif err := durable.Move", "\tcase p.m.Enters() != None:\n\t\tif err := durable.Move",
		boxTest("TestRule08_OrderOfTransition"),
	},
	{
		"finish-moves-before-it-puts", "8", transitionGo,
		"\tcase from.There && from.Hash == after:\n", "\tcase from.There && from.Hash == after, p.old(from) && ready && p.m.Enters() != InProgress:\n",
		boxTest("TestRule08_FinishPutsBeforeItMoves"),
	},
	{
		"what-comes-out-unchecked", "8", transitionGo,
		"\tcase p.old(out), out.Hash == task.HashOf(p.m.After):\n\t\treturn durable.Remove(p.staged)", "\tcase out.There:\n\t\treturn durable.Remove(p.staged)",
		boxTest("TestRule08_DeadInAnAside"),
	},
	{
		"stranger-in-our-place-is-put-over", "8", transitionGo,
		"return false, p.setAside(p.to, \"another file stood where a committed task belongs\")", "return false, durable.Remove(p.to)",
		boxTest("TestRule08_DeathWhilePuttingAside"),
	},
	{
		"stolen-task-is-kept", "8", claimGo,
		"if err == nil && ch.stolen {", "if err == nil && ch.stolen && c == nil {",
		boxTest("TestRule08_StolenClaim"),
	},
	{
		"torn-content-put-over", "10", transitionGo,
		"ready := staged.There && staged.Hash == after", "ready := staged.There",
		boxTest("TestRule10_TornContentIsNotPutInPlace"),
	},
	{
		"torn-content-moved", "10", transitionGo,
		"\tif fresh {\n\t\terr = p.rename()", "\tif fresh || p.looks == 0 {\n\t\terr = p.rename()",
		boxTest("TestRule10_TornContentIsNotPutInPlace"),
	},
	{
		"renames-unprobed", "8", boxGo,
		"if err := home.ProbeRenames(dir); err != nil {", "if err := error(nil); err != nil {",
		boxTest("TestRule08_RenamesAreProbed"),
	},
	{
		"edited-task-is-claimed", "9", viewGo,
		"case f != nil && f.Hash != r.After.String():", "case f != nil && f.Hash == \"\":",
		boxTest("TestRule09_EditedByHand"),
	},
	{
		"any-process-remembers", "9", verbsGo,
		"if c.from == \"\" || r == nil ||", "if r == nil ||",
		boxTest("TestRule09_OverwrittenFileOfAnotherProcess"),
	},
	{
		"another-request-remembered", "9", verbsGo,
		"if !t.AsksFor(r.Asked) {\n\t\treturn nil, foreign", "if t.ID == \"\" {\n\t\treturn nil, foreign",
		boxTest("TestRule09_OverwrittenFileOfAnotherProcess"),
	},
	{
		"verdict-without-the-ledger", "9", viewGo,
		"func (b *books) lookup(id ID) (*queue.Entry, error) {\n\tif err := b.queue.Update(); err != nil {", "func (b *books) lookup(id ID) (*queue.Entry, error) {\n\tif err := error(nil); err != nil {",
		boxTest("TestRule09_ManyAtOnce"),
	},
	{
		"verdict-without-the-shard", "9", "mailbox/reconcile.go",
		"\treturn b.ifFree(ctx, id, func(s *shard) error { return b.reconcile(ctx, s, id) })", "\tagain, err = b.ifFree(ctx, id, func(s *shard) error { return b.reconcile(ctx, s, id) })\n\tif again > 0 {\n\t\terr = b.reconcile(ctx, &shard{lock: b.shards[home.Shard(string(id))]}, id)\n\t}\n\treturn again, err",
		boxTest("TestRule09_VerdictNeedsTheShard"),
	},
	{
		"large-content-unflushed", "10", transitionGo,
		"if b.ledger.Journals(len(data)) { // the line", "if b.o.Sync != durable.Strict { // the line",
		boxTest("TestRule11_FlushedBeforeTheLine"),
	},
	{
		"content-not-journaled", "10", transitionGo,
		"if data == nil || !b.ledger.Journals(len(data)) {\n\t\treturn audit.Payload{}", "if data == nil || b.ledger.Journals(len(data)) {\n\t\treturn audit.Payload{}",
		boxTest("TestRule10_PowerCut"),
	},
	{
		"artifact-unflushed", "11,36", artifactGo,
		"err = durable.SyncFile(out)", "err = nil",
		boxTest("TestRule11_ArtifactsAreFlushed"),
	},
	{
		"artifact-name-unflushed", "11,12", leftGo,
		"err = durable.SyncDirs(staged, b.o.Sync)", "err = durable.SyncDirs(staged, durable.None)",
		boxTest("TestRule11_ArtifactsAreFlushed"),
	},
	{
		"artifact-place-unflushed", "11,12", leftGo,
		"return durable.SyncDir(filepath.Dir(place), b.o.Sync)", "return nil",
		boxTest("TestRule11_ArtifactsAreFlushed"),
	},
	{
		"artifact-linked", "36", artifactGo,
		"\terr = f.copyTo(limited, out, m)\n", "\t_ = limited\n\t\t\tos.Remove(out.Name())\n\t\t\terr = os.Link(filepath.Join(f.Dir, f.Below), out.Name())\n",
		boxTest("TestRule36_ArtifactIsACopy"),
	},
	{
		"artifact-follows-links", "36", "mailbox/durable/read.go",
		"unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)", "unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)",
		boxTest("TestRule36_ArtifactsFollowNoLink"),
	},
	{
		"artifact-not-as-hashed", "36", artifactGo,
		"if err == nil && (size != f.Size || sum != f.SHA256) {", "if err == nil && (size != f.Size || sum == \"\") {",
		boxTest("TestRule36_ArtifactChangedMeanwhile"),
	},
	{
		"artifact-tried-for-ever", "36", artifactGo,
		"if err != nil || info.IsDir() {", "if err != nil || info.IsDir() && in == nil {",
		boxTest("TestRule36_ArtifactsThatCannotBe"),
	},
	{
		"artifact-too-slow-for-ever", "36", artifactGo,
		"errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:", "err != nil && ctx.Err() != nil:",
		boxTest("TestRule36_ArtifactOnASlowDisk"),
	},
	{
		"artifact-of-before-stays", "36", leftGo,
		"if err = durable.Exchange(staged, place); err == nil {", "if err = nil; err == nil {",
		boxTest("TestRule36_CompleteAgainWithArtifacts"),
	},
	{
		"staged-artifacts-stay", "36", "mailbox/settle.go",
		"return durable.RemoveAll(path)", "return nil",
		boxTest("TestRule36_StagedArtifactsOfAnother"),
	},
	{
		"attached-undecoded", "36", "mailbox/verify/task.go",
		" && !bytes.Contains(data, attachmentsNamed) {", " && len(attachmentsNamed) > 0 {",
		boxTest("TestVerifySkimsNoAttachment"),
	},
	{
		"attached-not-compared", "36", "mailbox/verify/task.go",
		"slices.Concat(parsed.Result.Artifacts, parsed.Attached(keptIn(file, parsed)))", "append(slices.Clone(parsed.Result.Artifacts), parsed.Attached(keptIn(file, parsed))[:0]...)",
		boxTest("TestVerifySeesAttachments"),
	},
	{
		"attached-to-nothing", "36", "mailbox/verify/files.go",
		" || epoch == 0 && !t.attached {", " {",
		boxTest("TestVerifySeesAttachments"),
	},
	{
		"attached-by-the-drop", "36", "mailbox/task/drop.go",
		"{len(m.Attachments) > 0, ", "{len(m.Attachments) > MaxAttachments, ",
		boxTest("TestAttachmentsThatAreRefused"),
	},
	{
		"attached-under-any-name", "36", "mailbox/task/attachment.go",
		"\tname = plainName(name)\n", "",
		command{"mailbox/task", "TestAttachmentName"},
	},
	{
		"attached-name-unflushed", "11,12", transitionGo,
		"return durable.SyncDir(home.Private(b.home, \"tmp\"), b.o.Sync)", "return nil",
		boxTest("TestRule11_AttachmentsAreFlushed"),
	},
	{
		"attached-behind-the-task", "11", transitionGo,
		"\tif len(m.Attachments) > 0 {\n\t\tif err := placeAttached(b, id, m.TX); err != nil {\n\t\t\treturn false, err\n\t\t}\n\t}\n\terr = p.place(fresh)\n", "\terr = p.place(fresh)\n\tif err == nil && len(m.Attachments) > 0 {\n\t\terr = placeAttached(b, id, m.TX)\n\t}\n",
		boxTest("TestRule11_AttachmentsAreFlushed"),
	},
	{
		"attached-lost-by-recovery", "9", "mailbox/recover_tasks.go",
		"len(p.m.Attachments) > 0 && r.files[", "len(p.m.Attachments) < 0 && r.files[",
		boxTest("TestRecoverPlacesAttachments"),
	},
	{
		"attached-is-not-asked", "36", "mailbox/attach.go",
		"n.Mbox.Attachments = attachments(set)", "defer func() { n.Mbox.Attachments = attachments(set) }()",
		boxTest("TestAttachedOnce"),
	},
	{
		"edited-bytes-taken", "verify", "mailbox/verify/task.go",
		"if hash != t.after {\n\t\tl.add(6", "if false && hash != t.after {\n\t\tl.add(6",
		boxTest("TestRule36_VerifyTampering"),
	},
	{
		"artifacts-undecoded", "36", "mailbox/verify/task.go",
		"!deep && bytes.Contains(data, noArtifactsNamed) && ", "!deep && len(bytes.TrimSpace(data)) > len(noArtifactsNamed) && ",
		boxTest("TestRule36_VerifyDeep"),
	},
	{
		"skim-takes-any-text", "32", "mailbox/task/detail.go",
		"\tif !IsPlain(value) {\n", "\tif !IsText(value) {\n",
		command{"mailbox/queue", "TestRule32_SkimOfMoves"},
	},
	{
		"nested-to-moves", "32", "mailbox/task/move.go",
		"if audit.MembersOf(e.Details, nil).Get(\"to\") == nil {", "if !strings.Contains(string(e.Details), `\"to\":`) {",
		command{"mailbox/queue", "TestRule32_SkimOfMoves"},
	},
	{
		"artifact-not-compared", "36", "mailbox/verify/task.go",
		"case now.SHA256 != a.SHA256:", "case false:",
		boxTest("TestRule36_VerifyTampering/an_artifact"),
	},
	{
		"kept-while-written", "11", "mailbox/admit.go",
		"\tif bad != nil {\n\t\tif wait := d.unfinished(bad); wait > 0 {\n\t\t\treturn wait, nil\n\t\t}\n", "\tif bad != nil {\n",
		boxTest("TestRule11_HalfWritten"),
	},
	{
		"folder-of-another-user-put-away", "11", "mailbox/durable/files.go",
		"\t\treturn NotOurs, nil // to move a folder is to write its \"..\"\n", "",
		command{"cmd/mbox", "TestFolderThatOnlyRootCanMove"},
	},
	{
		"what-is-immutable-put-away", "11", "mailbox/durable/files.go",
		"case sealed:", "case sealed && mounted:",
		boxTest("TestRule11_PinnedDrops"),
	},
	{
		"mount-point-put-away", "11", "mailbox/durable/files.go",
		"	case mounted:\n		return Mounted", "	case mounted && sealed:\n		return Mounted",
		boxTest("TestRule11_PinnedDrops"),
	},
	{
		"pinned-forgotten", "11", "mailbox/scan.go",
		"\tif r.stay > 0 {\n", "\tif r.stay < 0 {\n",
		boxTest("TestRule11_PinnedDrops"),
	},
	{
		"never-left", "8", quarantineGo,
		"if pin == \"\" || failed != nil {", "if true {",
		command{"cmd/mbox", "TestFolderThatCouldNotBeMovedAfterItsLine"},
	},
	{
		"two-names-put-away-at-once", "11", "mailbox/admit.go",
		"case twoNames(fault):", "case false:",
		boxTest("TestRule11_HalfWritten"),
	},
	{
		"two-names-by-the-time-of-the-content", "11", "mailbox/admit.go",
		"\t\td.changed(time.Unix(st.Ctim.Unix()))", "\t\td.changed(time.Unix(st.Mtim.Unix()))",
		boxTest("TestRule11_HalfWritten"),
	},
	{
		"shared-bytes-count", "11", quarantineGo,
		"shared = sure && !idle || ok && (", "shared = sure && idle && ok && (",
		boxTest("TestRule11_HalfWritten"),
	},
	{
		"kept-bytes-unflushed", "11", quarantineGo,
		"if err := durable.SyncFile(f); err != nil {", "if err := error(nil); err != nil {",
		boxTest("TestRule11_FlushedBeforeTheLine"),
	},
	{
		"kept-is-looked-at-before-it-is-ours", "11", quarantineGo,
		"\tcase err == nil:\n\t\terr = b.finishEntry(", "\tcase err == nil:\n\t\tif right, _ := hasHash(path, k.SHA256); !right {\n\t\t\tpath = to\n\t\t}\n\t\terr = b.finishEntry(",
		boxTest("TestRule11_PossessionBeforeTheLook"),
	},
	{
		"reason-unflushed", "11", quarantineGo,
		"return durable.Stage(home.StagedReason(b.home, k.why.Entry), data, b.o.Sync)", "return durable.Stage(home.StagedReason(b.home, k.why.Entry), data, durable.None)",
		boxTest("TestRule11_FlushedBeforeTheLine"),
	},
	{
		"record-unflushed", "10", "mailbox/record.go",
		"return e, audit.Payload{}, durable.Stage(staged, f.data, b.o.Sync)", "return e, audit.Payload{}, durable.Stage(staged, f.data, durable.None)",
		boxTest("TestRule11_FlushedBeforeTheLine"),
	},
	{
		"archive-month-unflushed", "12", transitionGo,
		"if err := durable.MkdirAll(filepath.Dir(p.to), p.b.o.Sync); err != nil {", "if err := durable.MkdirAll(filepath.Dir(p.to), durable.None); err != nil {",
		boxTest("TestRule12_NewNamesAreFlushed"),
	},
	{
		"init-folders-unflushed", "12", "mailbox/home/home.go",
		"durable.MkdirAll(filepath.Join(dir, f), m)", "durable.MkdirAll(filepath.Join(dir, f), durable.None)",
		boxTest("TestRule12_NewNamesAreFlushed"),
	},
	{
		"init-locks-unflushed", "12", "mailbox/home/locks.go",
		"return made, errors.Join(durable.SyncDir(Private(dir, \"locks\"), m), ", "return made, errors.Join(nil, ",
		boxTest("TestRule12_NewNamesAreFlushed"),
	},
	{
		"strict-folders-unflushed", "12", transitionGo,
		"\t\terr = p.syncFolders()\n", "",
		boxTest("TestRule08_OrderOfTransition"),
	},
	{
		"lease-unlocked", "13", leaseGo,
		"lock := durable.NewLock(path)", "lock := durable.NewLock(home.LockPath(l.dir, \"sync\"))",
		boxTest("TestRule13_HeldLockIsTheTruth"),
	},
	{
		"lease-after-the-line", "13", claimGo,
		"\terr = b.commit(ctx, s, ch)\n", "\tmake := ch.lease\n\tch.lease = nil\n\terr = b.commit(ctx, s, ch)\n\tif err == nil && make != nil {\n\t\terr = make()\n\t}\n",
		boxTest("TestRule08_OrderOfTransition"),
	},
	{
		"dead-workers-wait-for-the-deadline", "13", "mailbox/reclaim.go",
		"return leased[e.ID] || now >=", "return now >=",
		boxTest("TestRule13_KilledWorkersChild"),
	},
	{
		"deadline-of-no-lease-file", "13", "mailbox/reclaim.go",
		"return leased[e.ID] || now >= e.Until", "return leased[e.ID] || now <= 0",
		boxTest("TestRule13_DeadlineIsKnownWithoutTheFile"),
	},
	{
		"lease-judged-without-the-shard", "13", "mailbox/reclaim.go",
		"\t\t_, err := b.ifFree(ctx, id, func(s *shard) error {\n\t\t\ttook, err := b.reclaimHeld(", "\t\tslots, _ := b.intents.Open()\n\t\tifFree := func(_ context.Context, id ID, do func(*shard) error) (bool, error) {\n\t\t\treturn false, do(&shard{number: home.Shard(string(id)), lock: b.shards[home.Shard(string(id))], slots: slots})\n\t\t}\n\t\t_, err := ifFree(ctx, id, func(s *shard) error {\n\t\t\ttook, err := b.reclaimHeld(",
		boxTest("TestRule13_LeaseIsJudgedUnderTheShard"),
	},
	{
		"dead-worker-keeps-its-task", "13", leaseGo,
		"\tcase !held:\n", "\tcase !held && note == nil:\n",
		boxTest("TestRule13_HeldLockIsTheTruth"),
	},
	{
		"proc-against-the-lock", "13", leaseGo,
		"\tif err == nil && !held {\n", "\tif note != nil && home.StartTime(note.PID) != note.Start {\n\t\theld = false\n\t}\n\tif err == nil && !held {\n",
		boxTest("TestRule13_HeldLockIsTheTruth"),
	},
	{
		"machine-by-host-name", "13", "mailbox/home/boot.go",
		"\twas.Host = \"\"\n", "",
		boxTest("TestRule13_HostRenamed|TestRule22_HomeMoved"),
	},
	{
		"numbers-of-any-namespace", "13", leaseGo,
		" && n.Namespace == l.namespace", "",
		command{"mailbox/lease", "TestRule13_ChildIsEnded"},
	},
	{
		"numbers-of-any-boot", "13", leaseGo,
		"n.Boot == l.boot && ", "",
		command{"mailbox/lease", "TestRule13_ChildIsEnded"},
	},
	{
		"shard-not-looked-at-again", "31", transitionGo,
		"b.say(ctx, s.locks, entry, payload)", "b.say(ctx, nil, entry, payload)",
		boxTest("TestRule31_OneTruth$"),
	},
	{
		"keys-shard-not-looked-at-again", "31", "mailbox/submit.go",
		"s.locks = append(s.locks, h.lock)", "_ = h",
		boxTest("TestRule31_OneTruthOfOtherLocks/of_a_key"),
	},
	{
		"drops-shard-not-looked-at-again", "31", "mailbox/admit.go",
		"\t\t\ts.locks = append(s.locks, d.s.lock)\n", "",
		boxTest("TestRule31_OneTruthOfOtherLocks/of_a_drop$"),
	},
	{
		"dropped-keys-shard-not-looked-at-again", "31", "mailbox/admit.go",
		"\t\t\ts.locks = append(s.locks, held.lock)\n", "",
		boxTest("TestRule31_OneTruthOfOtherLocks/of_a_drop's_key"),
	},
	{
		"delegations-not-looked-at-again", "31", "mailbox/submit.go",
		"\ts.locks = append(s.locks, under...)\n", "",
		boxTest("TestRule31_OneTruthOfOtherLocks/of_delegations"),
	},
	{
		"delegations-remade-and-free-at-once", "31", "mailbox/home/locks.go",
		"if i <= Delegations && all != nil {", "if i < Delegations && all != nil {",
		boxTest("TestRule31_RemadeIsSaidBeforeItIsTaken/delegation"),
	},
	{
		"folder-changed-just-now", "scan", "mailbox/scan.go",
		" && p.begun.Sub(p.mtime) > quiet", "",
		boxTest("TestFolderChangedJustNow"),
	},
	{
		"drop-behind-a-listing", "scan", "mailbox/scan.go",
		"folder.ModTime().Equal(p.mtime) && ", "",
		boxTest("TestCrowdedFolderIsListedOnce"),
	},
	{
		"untold-behind-told", "scan", "mailbox/queue/snapshot_write.go",
		"if e.Alarmed && r.Told == n {", "if e.Alarmed {",
		command{"mailbox/queue", "TestToldAreNotReadAgain"},
	},
	{
		"put-aside-under-a-lost-lock", "31", transitionGo,
		"\t\tline, err = b.say(ctx, s.locks, entry, payload)\n", "\t\tlocks := s.locks\n\t\tif d.Kind != \"task\" {\n\t\t\tlocks = nil\n\t\t}\n\t\tline, err = b.say(ctx, locks, entry, payload)\n",
		boxTest("TestRule31_StoppedBehindTheLine"),
	},
	{
		"lost-under-a-lost-lock", "31", "mailbox/alarm.go",
		"b.sayAlone(ctx, s.locks, ", "b.sayAlone(ctx, nil, ",
		boxTest("TestRule31_StoppedBehindTheLine"),
	},
	{
		"overtaken-artifacts-put-in-place", "31", leftGo,
		"\tif err := s.stillHeld(); err != nil {\n\t\treturn err\n\t}\n", "",
		boxTest("TestRule31_OvertakenArtifacts"),
	},
	{
		"recovery-without-its-lock", "31", restGo,
		"[]durable.Held{r.b.recoveries}", "nil",
		boxTest("TestRule31_OneRecoverySays"),
	},
	{
		"renewed-under-a-lost-lock", "31", "audit/mend.go",
		"\tif err := l.stillHeld(nil); err != nil {\n\t\treturn err // somebody else may have appended since it was copied\n\t}\n", "",
		command{"audit", "TestRule31_SwappedUnderALostLock"},
	},
	{
		"forgotten-under-a-lost-lock", "31", "audit/forget.go",
		"\tif err := l.stillHeld(nil); err != nil {\n\t\treturn err // somebody else may have begun it anew by now\n\t}\n", "",
		command{"audit", "TestRule31_SwappedUnderALostLock"},
	},
	{
		"where-it-went-not-asked", "31", chainGo,
		"if reached != at.Offset+int64(len(data)) {", "if reached < at.Offset+int64(len(data)) {",
		auditTest("TestRule14_ForeignWrite"),
	},
	{
		"remade-without-a-line", "31", recoverGo,
		" r.sayRemade,", "",
		boxTest("TestRule31_OneTruth"),
	},
	{
		"remade-and-free-at-once", "31", recoverGo,
		"home.MakeLocks(dir, home.RemadeSlot, o.Sync)", "home.MakeLocks(dir, home.BlankSlot, o.Sync)",
		boxTest("TestRule31_RemadeIsSaidBeforeItIsTaken"),
	},
	{
		"salvaged-id-counts", "8", "mailbox/task/salvage.go",
		"\tt.ID = id\n", "",
		boxTest("TestDroppedFiles"),
	},
	{
		"room-judged-when-decoded", "8", "mailbox/task/salvage.go",
		" || len(data)+Indents(data) > MaxNew", "",
		taskTest("TestSalvageCost"),
	},
	{
		"queue-view-by-name", "8", "cmd/mbox/views.go",
		"cmp.Or(a.at.Compare(b.at), cmp.Compare(a.id, b.id))", "cmp.Compare(a.id, b.id)",
		command{"cmd/mbox", "TestQueueView"},
	},
	{
		"snapshot-of-names", "32", "mailbox/queue/follow.go",
		"if due && q.names && !q.saving {", "if false {",
		boxTest("TestProducerOfMany"),
	},
	{
		"all-in-one-order", "33", "mailbox/queue/queue.go",
		"\trand.Shuffle(len(taken), func(i, j int) { taken[i], taken[j] = taken[j], taken[i] })\n", "\t_ = rand.Shuffle\n",
		boxTest("TestRule33"),
	},
	{
		"lower-ones-among-the-first", "33", "mailbox/queue/queue.go",
		"e.standing(now) < least {", "least < 0 {",
		boxTest("TestRule33"),
	},
	{
		"held-name-is-forgotten", "33", "mailbox/watch.go",
		"\t\tp.later.put(folder, name, came)\n\t}\n\treturn err", "\t}\n\treturn err",
		boxTest("TestRule33"),
	},
	{
		"scan-for-a-held-lock", "33", "mailbox/watch.go",
		"\tcase wait == goOn:\n\t\tp.again = at", "\tcase wait > 0:\n\t\tp.again = at",
		boxTest("TestRule33"),
	},
	{
		"children-not-looked-for", "34", leaseGo,
		"held, err = home.Locked(home.ChildPath(l.dir, name))", "held, err = false, error(nil)",
		boxTest("TestRule34_LeaseOfTheChild"),
	},
	{
		"child-holds-nothing", "34", leaseGo,
		"return f, durable.Share(f)", "return f, nil",
		boxTest("TestRule34_LeaseOfTheChild"),
	},
	{
		"child-may-write", "34", leaseGo,
		"f, err = durable.OpenFile(path, os.O_RDONLY)", "f, err = durable.OpenFile(path, os.O_RDWR)",
		boxTest("TestRule34_LeaseOfTheChild"),
	},
	{
		"harmed-lease-stops-all", "34", "mailbox/home/lease.go",
		" || errors.Is(err, durable.ErrNotRegular) || errors.Is(err, fs.ErrPermission)", "",
		boxTest("TestRule34_LeaseThatIsNone"),
	},
	{
		"lease-in-the-hands-of-the-child", "34", leaseGo,
		"\tpath := home.ChildPath(l.dir, home.LeaseName(id, token))\n", "\tif f, err := durable.OpenFile(home.LeasePath(l.dir, home.LeaseName(id, token)), os.O_RDWR); err == nil {\n\t\treturn f, nil\n\t}\n\tpath := home.ChildPath(l.dir, home.LeaseName(id, token))\n",
		boxTest("TestRule34_LeaseOfTheChild"),
	},
	{
		"child-is-not-ended", "34", leaseGo,
		"if err := l.EndChild(note); err != nil {", "if err := error(nil); err != nil && note != nil {",
		boxTest("TestRule13_KilledWorkersChild"),
	},
	{
		"outlived-is-handed-out", "34", leaseGo,
		"!free && v == Lost", "!free && v == Held",
		boxTest("TestRule34_ChildOutlivesItsEnd"),
	},
	{
		"outlived-holds-for-ever", "34", leaseGo,
		"!free && v == Lost", "!free",
		boxTest("TestRule34_ChildOutlivesItsEnd"),
	},
	{
		"end-is-not-waited-for", "34", leaseGo,
		"!lives || time.Now().After(end) {", "!lives || time.Now().Before(end) {",
		boxTest("TestRule34_ChildOutlivesItsEnd"),
	},
	{
		"lease-from-the-future", "13", leaseGo,
		"err = durable.Touch(f.Name(), l.now())\n\t}\n\tif at", "err = nil\n\t}\n\tif at",
		boxTest("TestRule13_LeaseFromTheFuture"),
	},
	{
		"a-closed-lid-ends-the-work", "13", leaseGo,
		"silent = min(silent, signed)", "silent = max(silent, 0*signed)",
		command{"mailbox/lease", "TestRule13_ClockOfALease"},
	},
	{
		"signs-of-another-boot", "13", leaseGo,
		"ok && n != nil && n.Boot == l.boot {", "ok && n != nil {",
		command{"mailbox/lease", "TestRule13_ClockOfALease"},
	},
	{
		"signs-that-no-older-mbox-sees", "13", leaseGo,
		", durable.Touch(f.Name(), l.now()))", ", durable.Touch(f.Name(), time.UnixMilli(l.awake().Milliseconds())))",
		command{"mailbox/lease", "TestRule13_ClockOfALease"},
	},
	{
		"sign-from-the-future", "13", leaseGo,
		"err = errors.Join(err, durable.WriteAt(f, home.Sign(l.awake()), 0))", "err = errors.Join(err, nil)",
		command{"mailbox/lease", "TestRule13_SignFromTheFuture"},
	},
	{
		"note-before-the-sign", "13", leaseGo,
		"append(home.Sign(l.awake()), note...)", "append(note, home.Sign(l.awake())...)",
		command{"mailbox/lease", "TestRule13_LeaseOfAnOlderVersion"},
	},
	{
		"newer-task-keeps-others-waiting", "13", claimGo,
		"case ofNewer(err): //", "case err == nil: //",
		boxTest("TestTaskOfANewerVersion"),
	},
	{
		"newer-task-fails-no-other", "13", "mailbox/ready.go",
		"errors.Is(err, ErrNotFound) || errors.Is(err, ErrByHand) || ofNewer(err) {", "errors.Is(err, ErrNotFound) || errors.Is(err, ErrByHand) {",
		boxTest("TestEndOfANewerTask"),
	},
	{
		"newer-task-ends-a-scan", "13", "mailbox/reclaim.go",
		" || ofNewer(err) {", " || err == nil && f == nil {",
		boxTest("TestTaskOfANewerVersion"),
	},
	{
		"another-process-is-ended", "34", leaseGo,
		" && home.StartTime(n.Child) == n.ChildStart", "",
		command{"mailbox/lease", "TestRule13_ChildIsEnded"},
	},
	{
		"index-of-any-boot", "18", "mailbox/queue/snapshot.go",
		" || s.head.Boot != o.Boot", "",
		boxTest("TestRule18_KeptIndex"),
	},
	{
		"index-of-another-ledger", "18", "mailbox/queue/snapshot.go",
		" || o.Ledger.Check(s.head.At) != nil", "",
		boxTest("TestRule18_KeptIndex"),
	},
	{
		"damaged-index-read", "18", "mailbox/queue/snapshot.go",
		"if sumOf(block) != binary.LittleEndian.Uint32(want) {", "if len(block) == 0 {",
		command{"mailbox/queue", "TestSnapshotSums"},
	},
	{
		"damaged-index-answers", "18", "mailbox/queue/follow.go",
		"	question()\n	if !q.broken() {\n", "	question()\n	if q.reader != nil {\n",
		boxTest("TestDamagedSnapshot"),
	},
	{
		"damaged-index-hides", "18", "mailbox/queue/queue.go",
		"q.broken() && len(taken) == 0 {", "len(taken) > most {",
		boxTest("TestDamagedSnapshot"),
	},
	{
		"halted-router-trusted", "nothing depends on a router", "mailbox/scan.go",
		"time.Since(info.ModTime()).Abs() < routerSilent", "info != nil",
		boxTest("TestHaltedRouter"),
	},
	{
		"router-without-signs", "nothing depends on a router", "mailbox/scan.go",
		"	sign()\n	return every", "	return every",
		boxTest("TestHaltedRouter"),
	},
	{
		"committed-on-the-way", "exit code 76", "mailbox/errors.go",
		"target != ErrCommitted && ", "",
		boxTest("TestCommittedIsTheVerbsOwnLine"),
	},
	{
		"commands-fold-again", "18", "mailbox/queue/follow.go",
		"most /= 4", "most /= 1",
		boxTest("TestSnapshotOfCommands"),
	},
	{
		"snapshot-is-new-enough", "18", "mailbox/queue/snapshot_write.go",
		"SnapshotLines/8", "SnapshotLines/2",
		boxTest("TestSnapshotOfCommands"),
	},
	{
		"index-that-stops-all", "18", "mailbox/queue/follow.go",
		"if errors.Is(err, errUnwritten) {", "if false {",
		boxTest("TestSnapshotThatCannotBeWritten"),
	},
	{
		"unwritten-index-folded-again", "18", "mailbox/queue/follow.go",
		"\t\t\tq.asked = true // go on", "\t\t\t// go on",
		boxTest("TestSnapshotThatCannotBeWritten"),
	},
	{
		"unwritten-index-left", "18", "mailbox/queue/snapshot_write.go",
		"\t\treturn errors.Join(err, durable.RemoveIfThere(temp))", "\t\treturn err",
		boxTest("TestSnapshotThatCannotBeWritten"),
	},
	{
		"unfit-index-again", "18", "mailbox/queue/follow.go",
		"	q.unfit = true\n", "",
		boxTest("TestDamagedSnapshot"),
	},
	{
		"no-index-that-stops-all", "18", "mailbox/queue/follow.go",
		"if s, err := q.o.open(); err == nil && !q.unfit {", "if s, err := q.o.open(); err != nil && !errors.Is(err, errNoSnapshot) {\n\t\treturn err\n\t} else if err == nil && !q.unfit {",
		boxTest("TestSnapshotThatCannotBeWritten"),
	},
	{
		"pace-that-stops-all", "scan", "mailbox/scan.go",
		"\t_ = durable.Replace(p.path", "\tif err := durable.Replace(p.path(folder), []byte(line), durable.None); err != nil {\n\t\tpanic(err)\n\t}\n\t_ = durable.Replace(p.path",
		boxTest("TestPaceThatCannotBeWritten"),
	},
}
