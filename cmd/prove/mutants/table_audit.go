package main

const (
	ledgerGo  = "audit/ledger.go"
	chainGo   = "audit/chain.go"
	headGo    = "audit/head.go"
	flushGo   = "audit/flush.go"
	journalGo = "audit/journal.go"
	formatGo  = "audit/journal_format.go"
	replayGo  = "audit/replay.go"
	mendGo    = "audit/mend.go"
	copyGo    = "audit/copy.go"
	readerGo  = "audit/reader.go"
	lineGo    = "audit/line.go"
	dayGo     = "audit/day.go"
)

func auditTest(run string) command { return command{"audit", run} }

var auditMutants = []mutant{
	{
		"named-without-proof", "recovery", "audit/identity.go",
		"case id == \"\" && first.At.Checksum == Genesis(named):", "case id == \"\":",
		command{"cmd/mbox", "TestScripts/unnamed"},
	},
	{
		"named-over-what-is-told", "recovery", "audit/identity.go",
		"case named != \"\" && id != named:", "case false:",
		command{"cmd/mbox", "TestScripts/unnamed"},
	},
	{
		"no-flush", "19", flushGo,
		"case l.mode == durable.None:", "case l.mode != durable.Strict:",
		auditTest("TestRule04_OrderOfAppend"),
	},
	{
		"flush-under-the-lock", "4", chainGo,
		"\treturn l.put(0, nil, e, now, p, locks)\n", "\tline, t, err := l.put(0, nil, e, now, p, locks)\n\tif err == nil && l.mode != durable.None {\n\t\terr = l.flushNow(t.from)\n\t}\n\treturn line, t, err\n",
		auditTest("TestRule04_OrderOfAppend"),
	},
	{
		"no-ledger-lock", "4", chainGo,
		"return func() { l.gate.Unlock() }, nil", "l.gate.Unlock()\n\treturn func() {}, nil",
		auditTest("TestRule15_TimeIsTakenUnderTheLock"),
	},
	{
		"time-before-the-lock", "15", chainGo,
		"\tunlock, err := l.lock(ctx)\n\tif err != nil {\n\t\treturn Line{}, ticket{}, fmt.Errorf(\"%w: %w\", ErrUnwritten, err)\n\t}\n\tdefer unlock()\n\tif err := l.ready(); err != nil {\n\t\treturn Line{}, ticket{}, fmt.Errorf(\"%w: %w\", ErrUnwritten, err)\n\t}\n\tnow := l.now().UTC()\n",
		"\tnow := l.now().UTC()\n\tunlock, err := l.lock(ctx)\n\tif err != nil {\n\t\treturn Line{}, ticket{}, fmt.Errorf(\"%w: %w\", ErrUnwritten, err)\n\t}\n\tdefer unlock()\n\tif err := l.ready(); err != nil {\n\t\treturn Line{}, ticket{}, fmt.Errorf(\"%w: %w\", ErrUnwritten, err)\n\t}\n",
		auditTest("TestRule15_TimeIsTakenUnderTheLock"),
	},
	{
		"running-flush-counts", "15", flushGo,
		"f.done = ticket{generation: t.generation, end: to}", "f.done = ticket{generation: t.generation, end: l.written(t)}",
		auditTest("TestRule15_FlushOfEarlierLines"),
	},
	{
		"failed-flush-again", "19", flushGo,
		"f.failed = durable.Flush(f.file)\n", "f.failed = durable.Flush(f.file)\n\t\tif f.failed != nil {\n\t\t\tf.failed = durable.Flush(f.file)\n\t\t}\n",
		auditTest("TestRule19_FailedFlush"),
	},
	{
		"flush-error-swallowed", "19", flushGo,
		"f.failed = durable.Flush(f.file)", "durable.Flush(f.file)",
		auditTest("TestRule19_FailedFlush"),
	},
	{
		"failed-flush-unmarked", "19", flushGo,
		"return errors.Join(f.failed, l.setReadOnly(\"flushing \"+f.name+\" failed: \"+f.failed.Error()))", "return errors.Join(f.failed)",
		auditTest("TestRule19_FailedFlush"),
	},
	{
		"unflushed-is-published", "24", flushGo,
		"f.done.end >= max(t.end, to)", "f.done.end >= t.end",
		auditTest("TestRule24_PublishesWhatWasFlushed"),
	},
	{
		"flush-of-any-generation", "24,25", flushGo,
		"use := journalUse{l.boot, t.from.dev, t.from.ino, t.generation}", "use := journalUse{l.boot, t.from.dev, t.from.ino, 0}",
		auditTest("TestRule24_FlushModel"),
	},
	{
		"byte-read-after-the-flush", "26", flushGo,
		"r.to, r.begun = r.begun, 0\n", "r.to, r.begun = l.written(t), 0\n",
		auditTest("TestRule24_FlushModel"),
	},
	{
		"published-before-the-flush", "26", flushGo,
		"\tr.begun = l.written(t)\n", "\tr.begun = l.written(t)\n\tr.to = r.begun\n",
		auditTest("TestRule24_FlushModel"),
	},
	{
		"published-though-read-only", "19,26", flushGo,
		"\tf.done = ticket{generation: t.generation, end: to}\n\treturn CheckWritable(l.home)", "\tf.done = ticket{generation: t.generation, end: to}\n\treturn nil",
		auditTest("TestRule26_ReadOnlyMeanwhile"),
	},
	{
		"no-patience", "27", flushGo,
		"return max(leaderPatience, leaderFlushes*time.Duration(f.took.Load()))", "return time.Hour",
		auditTest("TestRule27_StoppedLeader"),
	},
	{
		"gap-without-checkpoint", "28", flushGo,
		"\tif l.head.Journal.Generation == t.generation {\n", "\tif l.head.Journal.Generation == 0 {\n",
		auditTest("TestRule28_FlushInDoubt"),
	},
	{
		"leader-vouches-for-all", "28", flushGo,
		"case !t.vouches(r):", "case false:",
		auditTest("TestRule28_LeaderVouchesForAll"),
	},
	{
		"late-flushes-for-itself", "27", flushGo,
		"if err := l.flushTo(t, 0); err != nil || t.vouches(r) {", "if err := l.flushTo(t, 0); err != nil || r.boot != \"\" {",
		auditTest("TestRule27_StoppedLeaderKnowsOfAnError"),
	},
	{
		"a-new-process-knows-of-no-flush", "27", flushGo,
		"(t.vouches(r) || t.from.took.Load() == 0)", "t.vouches(r)",
		auditTest("TestRule27_NewProcessOnASlowDisk"),
	},
	{
		"no-end-in-a-gap", "28", flushGo,
		"case waited >= gap:", "case waited >= time.Hour:",
		auditTest("TestRule28_WriterKilled"),
	},
	{
		"new-generation-unpublished", "28", flushGo,
		"\treturn flushed{journalUse: use, to: journalBlock}, false\n", "\treturn flushed{journalUse: use}, false\n",
		auditTest("TestRule28_WriterKilled"),
	},
	{
		"generation-0-has-ended-it", "25", flushGo,
		"h.Boot == l.boot && h.Journal.Generation != 0 && ", "h.Boot == l.boot && ",
		auditTest("TestRule25_EndedGeneration"),
	},
	{
		"ended-generation-flushed", "25", flushGo,
		"case !its && l.ended(t):", "case its && l.ended(t):",
		auditTest("TestRule25_EndedGeneration"),
	},
	{
		"ended-keeps-all", "25", flushGo,
		"\t\treturn l.keeps(t.line)\n", "\t\treturn CheckWritable(l.home)\n",
		auditTest("TestRule25_TakenBack"),
	},
	{
		"retired-keeps-all", "25", flushGo,
		"return cmp.Or(err, errEnded)", "return cmp.Or(err, nil)",
		auditTest("TestRule25_TakenBack/retired"),
	},
	{
		"set-aside-is-kept", "25", flushGo,
		"range l.BackwardFrom(p.Seq) {\n\t\tif err != nil {\n\t\t\treturn err\n\t\t}\n\t\tif line.Seq == p.Seq", "range l.BackwardFrom(p.Seq) {\n\t\tif err != nil {\n\t\t\treturn err\n\t\t}\n\t\tif line.Seq <= p.Seq || line.Seq == p.Seq",
		auditTest("TestRule25_SetAside"),
	},
	{
		"alone-looks-how-long-it-takes", "28", flushGo,
		"case busy && waited >= patience", "case waited >= patience",
		auditTest("TestRule28_WriterKilled"),
	},
	{
		"all-without-vouching", "28", flushGo,
		"if !t.vouches(l.published(t)) {", "if t.from == nil {",
		auditTest("TestRule28_AllByACheckpoint"),
	},
	{
		"in-doubt-nothing-is-blanked", "37", replayGo,
		"if !lost && !l.inDoubt() {", "if !lost {",
		auditTest("TestRule37_BlankedInDoubt"),
	},
	{
		"read-only-is-written", "19", chainGo,
		"if err := CheckWritable(l.home); err != nil {\n\t\treturn err\n\t}\n\thead, err", "head, err",
		auditTest("TestRule19_FailedFlush"),
	},
	{
		"prev-unchecked", "16", lineGo,
		"case string(l.prev) != p.Checksum:", "case len(l.prev) == 0:",
		auditTest("TestRule16_ForgedTail"),
	},
	{
		"seq-unchecked", "16", lineGo,
		"case l.seq != p.Seq+1:", "case l.seq < 1:",
		auditTest("TestRule16_ForgedTail"),
	},
	{
		"checksum-unchecked", "16", lineGo,
		"|| string(sum[7:]) != string(text[:]) {", "|| len(sum[7:]) != len(text) {",
		auditTest("TestRule16_Restart"),
	},
	{
		"first-repair-counts", "16", dayGo,
		"range slices.Backward(d.repairs) {", "range slices.All(d.repairs) {",
		auditTest("TestRule16_LastRepairCounts"),
	},
	{
		"repair-of-any-bytes", "16", dayGo,
		"if n == r.Length && r.SHA256 == \"sha256:\"+hex.EncodeToString(sum.Sum(nil)) {", "if n == r.Length && hex.EncodeToString(sum.Sum(nil)) != \"\" {",
		auditTest("TestRule16_RepairOfOtherBytes"),
	},
	{
		"skim-by-substring", "32", lineGo,
		"l.known = eventOf(inner(l.event))", "_, after, _ := bytes.Cut(body, []byte(`\"event\":\"`))\n\tname, _, _ := bytes.Cut(after, []byte{'\"'})\n\tl.known = eventOf(name)",
		auditTest("TestRule32_ByPosition"),
	},
	{
		"head-of-any-boot", "14,16", chainGo,
		"if head.Boot != l.boot {\n\t\treturn l.rebuildHead()", "if head.Boot == \"\" {\n\t\treturn l.rebuildHead()",
		auditTest("TestRule14_HeadOfAnotherBoot"),
	},
	{
		"damaged-head-counts", "14", headGo,
		"crc32.ChecksumIEEE(line[:i]) != uint32(sum) {", "sum == 0 {",
		auditTest("TestRule14_DamagedHead"),
	},
	{
		"longer-ledger-unread", "14", chainGo,
		"if size == head.Length {", "if size >= head.Length {",
		auditTest("TestRule14_TornTail"),
	},
	{
		"shorter-ledger-is-fine", "14", chainGo,
		"|| st.Size != head.Length) && head.Length > 0", "|| st.Size > head.Length) && head.Length > 0",
		auditTest("TestRule14_ShortLedger"),
	},
	{
		"missing-ledger-is-begun", "14", chainGo,
		"return 0, l.damaged(fmt.Sprintf(\"audit/shared/%s is gone, it held seq %d\", head.File, head.Seq))", "return 0, nil",
		auditTest("TestRule14_LedgerFileGone"),
	},
	{
		"other-inode-unseen", "14", chainGo,
		"if l.open == nil || l.open.ino != st.Ino || l.open.dev != uint64(st.Dev) {", "if l.open == nil || l.open.dev != uint64(st.Dev) {",
		auditTest("TestRule14_LedgerFileReplaced"),
	},
	{
		"foreign-write-unseen", "14", chainGo,
		"if reached != at.Offset+int64(len(data)) {", "if reached < 0 {",
		auditTest("TestRule14_ForeignWrite"),
	},
	{
		"failed-append-is-nothing", "6", chainGo,
		"failed == nil && info.Size() == length {", "failed == nil && info.Size() >= length {",
		auditTest("TestRule06_FailedAppend"),
	},
	{
		"head-before-the-journal", "14", chainGo,
		"\tnext := l.head.Journal\n", "\tif err := l.writeHead(Head{File: end.File, Length: end.Offset, Seq: end.Seq, Checksum: end.Checksum, Journal: l.head.Journal}); err != nil {\n\t\treturn line, ticket{}, err\n\t}\n\tnext := l.head.Journal\n",
		auditTest("TestRule04_OrderOfAppend"),
	},
	{
		"midnight-unflushed", "15", chainGo,
		"\tif err := l.flushAll(); err != nil {\n\t\treturn err\n\t}\n\tpath", "\tpath",
		auditTest("TestRule15_OrderOfMidnight"),
	},
	{
		"midnight-journal-unflushed", "15", flushGo,
		"if err := l.flushNow(t.from); err != nil {", "if err := error(nil); err != nil {",
		auditTest("TestRule15_OrderOfMidnight"),
	},
	{
		"day-file-unflushed", "15", chainGo,
		"if l.mode != durable.None {\n\t\tif err := durable.SyncFile(f); err != nil {", "if l.mode == durable.None {\n\t\tif err := durable.SyncFile(f); err != nil {",
		auditTest("TestRule15_OrderOfMidnight"),
	},
	{
		"day-folder-unflushed", "12,15", chainGo,
		"if err := durable.SyncDir(sharedDir(l.home), l.mode); err != nil {\n\t\tf.Close()", "if err := error(nil); err != nil {\n\t\tf.Close()",
		auditTest("TestRule15_OrderOfMidnight"),
	},
	{
		"flushed-does-nothing", "5", chainGo,
		"\tunlock()\n\tif err != nil || t.from == nil {\n\t\treturn err\n\t}\n\treturn l.flush(t)", "\tunlock()\n\t_ = t\n\treturn err",
		auditTest("TestRule05_FlushedFlushesForOthers"),
	},
	{
		"frozen-unflushed", "18,23", chainGo,
		"\tif err := l.flushAll(); err != nil {\n\t\treturn err\n\t}\n\treturn do(", "\treturn do(",
		auditTest("TestRule23_Frozen"),
	},
	{
		"checkpoint-without-syncfs", "10", journalGo,
		"if err := durable.SyncFS(on); err != nil {", "if err := error(nil); err != nil && on != nil {",
		auditTest("TestRule10_JournalBeginsAnew"),
	},
	{
		"left-without-flushes", "10", journalGo,
		"\treturn l.flushHeld(l.open)\n", "\tif l.mode == durable.None {\n\t\treturn nil\n\t}\n\treturn l.flushHeld(l.open)\n",
		auditTest("TestLeftWithoutFlushes"),
	},
	{
		"base-unflushed", "10", journalGo,
		"if err := l.flushNow(l.journal.flusher); err != nil {", "if err := error(nil); err != nil {",
		auditTest("TestRule10_OrderOfJournal"),
	},
	{
		"head-keeps-the-old-journal", "10", journalGo,
		"\tif err := l.uncover(l.journal.ino); err != nil {\n\t\treturn err\n\t}\n", "",
		auditTest("TestRule10_OrderOfJournal"),
	},
	{
		"payload-not-journaled", "10", formatGo,
		"\tsum = crc32.Update(sum, castagnoli, p.Data)\n\tn := len(head)", "\tp = Payload{Name: p.Name}\n\tn := len(head)",
		auditTest("TestRule10_JournalRecords"),
	},
	{
		"journal-of-an-earlier-use", "10", formatGo,
		"if !ok || rec.prev != j.end.Checksum || rec.Seq != j.end.Seq+1 {", "if !ok {",
		auditTest("TestRule10_JournalOfEarlierUse"),
	},
	{
		"torn-journal-record", "10", formatGo,
		"if have != sum {", "if have == 0 && sum != 0 {",
		auditTest("TestRule10_JournalOfEarlierUse"),
	},
	{
		"replay-over-damage", "16", replayGo,
		"if !Torn(have[:n], rec.bytes) {", "if len(have) == 0 {",
		auditTest("TestRule16_Replay"),
	},
	{
		"replay-writes-over", "37", replayGo,
		"if rec.At.Offset+int64(n) == info.Size() && bytes.HasPrefix(rec.bytes, have[:n]) {", "if n < 0 {",
		auditTest("TestRule37_ReplayAppendOnly"),
	},
	{
		"newest-file-sealed", "37", "audit/seal.go",
		"filepath.Base(path) < l.head.File", "filepath.Base(path) <= l.head.File",
		auditTest("TestRule37_SealsWhatIsFinished"),
	},
	{
		"replay-unflushed", "10", replayGo,
		"err = l.syncFile(f)", "err = nil",
		auditTest("TestRule10_ReplayFlushes"),
	},
	{
		"journal-read-unflushed", "5,10", replayGo,
		"return true, l.syncFile(f) }", "return true, nil }",
		auditTest("TestRule10_ReplayFlushes"),
	},
	{
		"reader-takes-any-end", "14", "audit/reader.go",
		"known.Boot != l.boot || known.Seq <= r.at.Seq {", "known.Boot != l.boot || known.Seq >= 0 {",
		boxTest("TestRule14_LedgerLost"),
	},
	{
		"reader-stays-in-the-old-ledger", "14,18", "audit/reader.go",
		"known.Checksum != r.at.Checksum {", "known.Boot == \"\" {",
		boxTest("TestRule14_ForgottenUnderAProcess"),
	},
	{
		"reader-trusts-an-old-end", "9,14", "audit/reader.go",
		"if stepped && r.ended {", "if r.ended {",
		auditTest("TestRule09_ReachedLooksAnew"),
	},
	{
		"replaced-file-unchecked", "14", chainGo,
		"&& head.Length > 0 && l.Check(head.position(l.genesis)) != nil {", "&& head.Length < 0 {",
		auditTest("TestRule14_LedgerFileOfAnother"),
	},
	{
		"lines-blanked-in-the-same-boot", "37", replayGo,
		"if !lost && !l.inDoubt() {", "if ctx == nil {",
		boxTest("TestRule37_OlderJournalBlanksNothing"),
	},
	{
		"other-bytes-than-the-journal", "16", replayGo,
		"if err == nil && !there {", "if err == nil && !there && n < 0 {",
		auditTest("TestRule16_Replay"),
	},
	{
		"whole-lines-behind-a-hole", "16", replayGo,
		"if lines, err := l.checkCut(covered, size); err != nil || lines == 0 {", "if next, _, err := l.chainEnd(covered); err != nil || next == covered {",
		boxTest("TestRule16_UncoveredLineBehindAHole"),
	},
	{
		"head-counts-torn-bytes", "6", chainGo,
		"Offset: l.head.Length + torn, Seq:", "Offset: l.head.Length + 0*torn, Seq:",
		auditTest("TestRule06_RepairByTheKilled|TestRule06_MendDies"),
	},
	{
		"head-stays-while-lines-are-blanked", "14", replayGo,
		"\tif err := l.writeHead(back); err != nil {\n\t\treturn err\n\t}\n", "\t_ = back\n",
		auditTest("TestRule14_BlankDies"),
	},
	{
		"uncovered-lines-count", "16", replayGo,
		"return j.records, l.blankUncovered(j.end)", "return j.records, nil",
		auditTest("TestRule16_UncoveredLine"),
	},
	{
		"uncovered-though-it-stands", "16", replayGo,
		"if lines, err := l.checkCut(covered, size); err != nil || lines == 0 {", "if lines, err := l.checkCut(covered, size); lines == 0 {",
		auditTest("TestRule16_UncoveredLine"),
	},
	{
		"cut-though-it-stands", "16", mendGo,
		"if err != nil || tx == \"\" {\n\t\treturn lines, err", "if err != nil || tx != \"\" {\n\t\treturn lines, err",
		auditTest("TestRule16_Restart"),
	},
	{
		"cut-unasked", "16", mendGo,
		"if l.stands == nil || ", "if l.stands != nil || ",
		auditTest("TestRule16_RestartWithDamage"),
	},
	{
		"older-file-unread", "16,21", mendGo,
		"\tif err := l.checkOlder(); err != nil {\n\t\treturn err\n\t}\n\tif err := l.rebuildHead()", "\tif err := l.rebuildHead()",
		auditTest("TestRule16_DamageInAnOlderFile"),
	},
	{
		"renew-in-place", "19", mendGo,
		"if err := durable.Exchange(fresh, path); err != nil {", "if err := durable.Remove(fresh); err != nil {",
		auditTest("TestRule19_RenewTakesOtherInodes"),
	},
	{
		"renew-keeps-the-journal", "19", "audit/forget.go",
		"\tif err := l.dropJournal(); err != nil {\n\t\treturn err\n\t}\n", "",
		auditTest("TestRule19_RenewTakesOtherInodes"),
	},
	{
		"torn-copy-goes-on", "17", copyGo,
		"!bytes.HasPrefix(k.data, have) || ", "",
		auditTest("TestRule17_NextLineMendsItsCopy"),
	},
	{
		"copy-unlike-the-ledger", "17", copyGo,
		"before.File == k.end.File && !holds(f, before) {", "before.File == k.end.File && before.File == \"\" {",
		auditTest("TestRule17_NextLineMendsItsCopy"),
	},
	{
		"copies-stay-as-they-are", "17", copyGo,
		"err == nil && mend {\n\t\terr = c.compare()", "err == nil && mend {\n\t\terr = nil",
		auditTest("TestRule17_CopiesAreMended"),
	},
	{
		"copy-written-in-place", "17", copyGo,
		"newSuffix  = \".new\" ", "newSuffix  = \"\" ",
		auditTest("TestRule17_CopyIsRenamedIntoPlace"),
	},
	{
		"copy-name-unflushed", "12", copyGo,
		"err := durable.SyncDir(dir, c.l.mode)", "err := error(nil)",
		auditTest("TestRule12_NewNamesAreFlushed"),
	},
	{
		"copy-spoils-an-answer", "29", ledgerGo,
		"return line, l.flush(flush)", "return line, errors.Join(l.flush(flush), l.Copy(ctx, 0))",
		boxTest("TestRule29_StrangeCopy"),
	},
	{
		"copy-goes-on-behind-an-error", "29", copyGo,
		"\t\tif err := c.place(folder, k); err != nil {\n\t\t\treturn err\n\t\t}\n", "\t\tif err := c.place(folder, k); err != nil {\n\t\t\tcontinue\n\t\t}\n",
		auditTest("TestRule29_DaysInOrder"),
	},
	{
		"copies-skip-a-line", "29", copyGo,
		"if err == nil {\n\t\t\terr = c.Add(", "if err == nil && size+len(line.Raw) <= most {\n\t\t\terr = c.Add(",
		auditTest("TestRule29_CopiesInSteps"),
	},
	{
		"copies-counted-before-they-are-written", "29", copyGo,
		"\tmore, err = c.run(l.Read(e[shared]), math.MaxInt64, most)\n", "\te[shared] = l.End()\n\t_ = e.write(f, l.boot)\n\tmore, err = c.run(l.Read(readEnds(f, l.boot)[shared]), math.MaxInt64, most)\n",
		auditTest("TestRule29_KilledCopies"),
	},
	{
		"copies-of-the-idle-wait", "29", copyGo,
		"case l.owed == 1:", "case l.owed == 2:",
		auditTest("TestRule29_CopiesFollow"),
	},
	{
		"copies-left-by-close", "29", ledgerGo,
		"\tl.endCopies()\n", "\tl.copies.Close()\n",
		auditTest("TestRule29_CopiesFollow"),
	},
	{
		"copies-wait-for-the-stopped", "29", copyGo,
		"copyWait   = time.Second", "copyWait   = time.Minute",
		auditTest("TestRule29_CopiesAreTried"),
	},
	{
		"cut-copy-unseen", "17", "audit/copycheck.go",
		"size < end.Offset {", "size < 0 {",
		command{"audit/verify", "TestRule17_VerifyCopies"},
	},
	{
		"kept-position-believed", "18", readerGo,
		"return err == nil && string(have) == want", "return err == nil",
		auditTest("TestRule18_KeptPosition"),
	},
	{
		"read-only-forgotten", "19", chainGo,
		"err := durable.Stage(ReadOnlyPath(l.home), []byte(text), l.mode)", "err := error(nil)\n\t_ = text",
		auditTest("TestRule19_FailedFlush"),
	},
}
