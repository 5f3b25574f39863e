package main

// memoryMutants break what agents remember: that nothing is lost or comes from
// somebody else, and that what is forgotten is gone.
var memoryMutants = []mutant{
	{
		"memory-program-tells-secrets", "memory", "agents/memory/adapter/adapter.go",
		"if s != \"\" {", "if s == \"\" {",
		command{"agents/memory/adapter", "TestWrongPrograms"},
	},
	{
		"memory-program-believed", "memory", "agents/memory/adapter/adapter.go",
		"err = e.Check()", "_ = e.Check()",
		command{"agents/memory/adapter", "TestWrongPrograms"},
	},
	{
		"memory-program-lists-for-ever", "memory", "agents/memory/adapter/adapter.go",
		"if err == nil && a.More && (len", "if err == nil && len(after) > 9 && (len",
		command{"agents/memory/adapter", "TestWrongPrograms"},
	},
	{
		"memory-program-lives-on", "memory", "agents/memory/adapter/adapter.go",
		"syscall.Kill(-p.cmd.Process.Pid", "syscall.Kill(p.cmd.Process.Pid",
		command{"agents/memory/adapter", "TestGivenUp"},
	},
	{
		"memory-program-begun-once", "memory", "agents/memory/adapter/adapter.go",
		"if s.run != nil && s.run.over() {", "if s.o.Agent == \"\" {",
		command{"agents/memory/adapter", "TestEndedBetween"},
	},
	{
		"memory-recalls-what-does-not-fit", "memory", "agents/memory/recall.go",
		"e.Score > 0 {", "e.Score >= 0 {",
		memoryTest("TestMarkdown$"),
	},
	{
		"memory-capitals-count", "memory", "agents/memory/recall.go",
		"text, n := strings.ToLower(e.Key+\": \"+e.Content), 0", "text, n := e.Key+\": \"+e.Content, 0",
		memoryTest("TestMarkdown$"),
	},
	{
		"memory-peers-before-own", "memory", "agents/memory/recall.go",
		"cmp.Compare(other(a, own), other(b, own))", "cmp.Compare(other(b, own), other(a, own))",
		memoryTest("TestMarkdown$"),
	},
	{
		"memory-peer-without-a-name", "memory", "agents/memory/instance.go",
		"found[i].Agent = agent", "found[i].Agent = \"\"",
		memoryTest("TestMarkdown$"),
	},
	{
		"memory-one-peer-ends-recall", "memory", "agents/memory/instance.go",
		"\t\t\tm.o.Warn(peer, err)\n\t\t\tcontinue\n", "\t\t\treturn nil, err\n",
		memoryTest("TestPeerThatFails$"),
	},
	{
		"memory-imports-twice", "memory", "agents/memory/instance.go",
		"\t\t\thave[bare(e)]--\n\t\t\tcontinue\n", "",
		memoryTest("TestMarkdown$"),
	},
	{
		"memory-takes-control-characters", "memory", "agents/memory/memory.go",
		"return plain(\"content\", e.Content, \"\\n\\t\")", "return nil",
		memoryTest("TestMarkdown$"),
	},
	{
		"memory-sources-written-by-agents", "memory", "agents/policy/build.go",
		"\"memory\", \"state.json\"", "\"state.json\"",
		command{"agents/policy", "TestForAgent$"},
	},
	{
		"memory-of-a-stranger", "memory", "cmd/mbox/memories.go",
		"[]byte(token)) == 0 {", "[]byte(token)) == 2 {",
		command{"cmd/mbox", "TestScripts/^memory$"},
	},
	{
		"memory-of-others-for-agents", "memory", "cmd/mbox/memories.go",
		"if r.agent != agent {", "if r.agent == \"\" {",
		command{"cmd/mbox", "TestScripts/^memory$"},
	},
	{
		"memory-imported-by-agents", "memory", "cmd/mbox/cmd_memory.go",
		"if by != \"human\" {", "if by == \"\" {",
		command{"cmd/mbox", "TestScripts/^memory$"},
	},
	{
		"memory-forgotten-in-secret", "memory", "cmd/mbox/cmd_memory.go",
		"\"hashes\": hashes", "\"hashes\": ids",
		command{"cmd/mbox", "TestScripts/^memory$"},
	},
	{
		"memory-hash-without-salt", "memory", "agents/memory/memory.go",
		"string(salt) + \"memory\\n\"", "\"memory\\n\"",
		memoryTest("TestHash$"),
	},
	{
		"memory-lines-are-headings", "memory", "agents/memory/page.go",
		"line = \"  \" + line", "line = line + \"\"",
		memoryTest("TestMarkdown$"),
	},
	{
		"memory-numbers-come-again", "memory", "agents/memory/page.go",
		"kept = append(kept, \"-\")", "kept = append(kept, \"\")",
		memoryTest("TestMarkdown$"),
	},
	{
		"memory-without-a-lock", "memory", "agents/memory/markdown.go",
		"filepath.Join(at.Private, \"lock\")", "filepath.Join(at.Private, fmt.Sprint(\"lock\", time.Now().UnixNano()))",
		memoryTest("TestMarkdown$"),
	},
	{
		"memory-source-after-the-page", "memory", "agents/memory/markdown.go",
		"\t\tif err := m.keepSources(&from); err != nil { // before: without it the entry would come from nobody\n\t\t\treturn err\n\t\t}\n\t\treturn m.write(file, p)\n",
		"\t\tif err := m.write(file, p); err != nil {\n\t\t\treturn err\n\t\t}\n\t\treturn m.keepSources(&from)\n",
		memoryTest("TestMarkdownFaults$"),
	},
	{
		"memory-source-outlives-its-entry", "memory", "agents/memory/markdown.go",
		"\t\treturn m.keepSources(nil)\n", "\t\treturn nil\n",
		memoryTest("TestMarkdownForm$"),
	},
	{
		"memory-half-a-page-stays", "memory", "agents/memory/markdown.go",
		"&& begun(root, name) {", "&& !begun(root, name) {",
		memoryTest("TestMarkdownSweeps$"),
	},
	{
		"memory-page-without-bound", "memory", "agents/memory/markdown.go",
		"if len(p.text()) > maxPage {", "if len(p.text()) < 0 {",
		memoryTest("TestMarkdownFull$"),
	},
	{
		"memory-of-all-agents", "memory", "agents/memory/sqlite/sqlite.go",
		"WHERE id = ? AND agent_id = (SELECT uuid FROM agents WHERE alias = ?)", "WHERE id = ? AND ? <> ''",
		sqliteTest("TestSQLite$"),
	},
	{
		"memory-recalled-of-all-agents", "memory", "agents/memory/sqlite/sqlite.go",
		"const ofAgent = \"m.agent_id = (SELECT uuid FROM agents WHERE alias = ?)\"", "const ofAgent = \"? <> ''\"",
		sqliteTest("TestSQLite$"),
	},
	{
		"memory-forgotten-stays-on-disk", "memory", "agents/memory/sqlite/sqlite.go",
		"\"secure_delete(ON)\"", "\"secure_delete(OFF)\"",
		sqliteTest("TestForgottenIsInNoFile$"),
	},
	{
		"memory-forgotten-stays-in-the-index", "memory", "agents/memory/sqlite/sqlite.go",
		"VALUES ('secure-delete', 1)", "VALUES ('secure-delete', 0)",
		sqliteTest("TestForgottenIsInNoFile$"),
	},
	{
		"memory-ids-come-again", "memory", "agents/memory/sqlite/sqlite.go",
		"id INTEGER PRIMARY KEY AUTOINCREMENT", "id INTEGER PRIMARY KEY",
		sqliteTest("TestSQLite$"),
	},
	{
		"memory-copy-outlives-forgetting", "memory", "agents/memory/sqlite/sqlite.go",
		"return dropSnapshot(s.path)", "return nil",
		sqliteTest("TestForgottenIsInNoFile$"),
	},
	{
		"memory-newer-tables-written", "memory", "agents/memory/sqlite/sqlite.go",
		"v > version {", "v > 1000*version {",
		sqliteTest("TestStrangeFiles$"),
	},
	{
		"memory-commonest-words", "memory", "agents/memory/sqlite/recall.go",
		"return in[a] - in[b]", "return in[b] - in[a]",
		sqliteTest("TestRarest$"),
	},
	{
		"memory-left-out-of-backups", "memory", "cmd/mbox/cmd_backup.go",
		"instead[rel] = copied", "instead[rel] = copied[:0]",
		command{"cmd/mbox", "TestScripts/^memory_sqlite$"},
	},
	{
		"memory-is-no-data", "memory", "agents/prompt.go",
		"b.WriteString(data(mark, \"memory\", schemas.Cut(text, left)))", "b.WriteString(schemas.Cut(text, left))",
		command{"agents", "TestPromptMemory$"},
	},
	{
		"memory-fills-the-prompt", "memory", "agents/prompt.go",
		"schemas.Cut(text, left)", "text",
		command{"agents", "TestPromptMemory$"},
	},
	{
		"memory-vectors-of-two-models", "memory", "agents/memory/embed.go",
		"case model != m.Model():", "case false:",
		sqliteTest("TestMeaning$"),
	},
	{
		"memory-vectors-of-two-lengths", "memory", "agents/memory/embed.go",
		"case dim > 0 && dim != have:", "case false:",
		sqliteTest("TestMeaning$"),
	},
	{
		"memory-vector-stays-behind", "memory", "agents/memory/sqlite/vectors.go",
		"if binary.LittleEndian.Uint64(record) != uint64(id) {", "if true {",
		sqliteTest("TestForgottenVectorIsInNoFile$"),
	},
	{
		"memory-of-others-by-meaning", "memory", "agents/memory/sqlite/vectors.go",
		"\"SELECT m.data FROM signs m WHERE \"+ofAgent", "\"SELECT m.data FROM signs m WHERE '' <> ?\"",
		sqliteTest("TestMeaning$"),
	},
	{
		"memory-lost-without-a-model", "memory", "agents/memory/embed.go",
		"\t\tm.tell(fmt.Errorf(\"only words are looked for: %w\", err))\n\t\treturn nil, nil\n", "\t\treturn nil, err\n",
		sqliteTest("TestMeaning$"),
	},
	{
		"memory-no-words-beside-meaning", "memory", "agents/memory/embed.go",
		"score[e.ID] += share(rank)\n\t}\n\tfor rank", "score[e.ID] += 0 * share(rank)\n\t}\n\tfor rank",
		sqliteTest("TestMeaning$"),
	},
	{
		"postgres-forgets-of-all-agents", "memory", "agents/memory/postgres/postgres.go",
		"\"DELETE FROM memories WHERE \"+ofAgent+\" AND id = $2\"", "\"DELETE FROM memories WHERE $1 <> '' AND id = $2\"",
		postgresTest("TestPostgres$"),
	},
	{
		"postgres-recalls-of-all-agents", "memory", "agents/memory/postgres/postgres.go",
		"const ofAgent = \"agent_id = (SELECT uuid FROM agents WHERE alias = $1)\"", "const ofAgent = \"$1 <> ''\"",
		postgresTest("TestPostgres$"),
	},
	{
		"postgres-tells-done-too-soon", "memory", "agents/memory/postgres/postgres.go",
		"return s.run(ctx, \"COMMIT\")", "return s.run(ctx, \"ROLLBACK\")",
		postgresTest("TestPostgres$"),
	},
	{
		"postgres-newer-tables-written", "memory", "agents/memory/postgres/postgres.go",
		"v != version {", "v == 0 {",
		postgresTest("TestStrangeTables$"),
	},
	{
		"postgres-makes-tables-twice", "memory", "agents/memory/postgres/postgres.go",
		"err == nil && r.Rows[0][0] == nil {", "err == nil && r != nil {",
		postgresTest("TestPostgres$"),
	},
	{
		"postgres-vector-stays-behind", "memory", "agents/memory/postgres/postgres.go",
		"REFERENCES memories (id) ON DELETE CASCADE, agent_id", "NOT NULL, agent_id",
		postgresTest("TestForgottenIsInNoTable$"),
	},
	{
		"postgres-commonest-words", "memory", "agents/memory/postgres/recall.go",
		"return in[a] - in[b]", "return in[b] - in[a]",
		postgresTest("TestRarest$"),
	},
	{
		"postgres-long-words-refused", "memory", "agents/memory/postgres/recall.go",
		"word[:min(len(word), maxWord)]", "word",
		postgresTest("TestRarest$"),
	},
	{
		"postgres-password-in-the-clear", "memory", "agents/memory/postgres/connect.go",
		"if inClear {", "if inClear && false {",
		postgresTest("TestURLs$"),
	},
	{
		"postgres-tells-what-connects", "memory", "agents/memory/postgres/connect.go",
		"%w: want postgres://user:password@host:5432/database\", ErrURL)", "%w: want postgres://user:password@host:5432/database %w\", ErrURL, err)",
		postgresTest("TestURLs$"),
	},
	{
		"postgres-tells-who-was-refused", "memory", "agents/memory/postgres/connect.go",
		"return fault(errors.New(\"the server refuses user and password\")", "return fault(fmt.Errorf(\"the server refuses user and password: %w\", err)",
		postgresTest("TestFaults$"),
	},
	{
		"postgres-never-given-up", "memory", "agents/memory/postgres/postgres.go",
		"limited, cancel := context.WithTimeout(ctx, limit)", "limited, cancel := context.WithTimeout(ctx, limit+time.Minute)",
		postgresTest("TestTimes$"),
	},
	{
		"postgres-connection-lost-for-good", "memory", "agents/memory/postgres/postgres.go",
		"s.conn == nil || s.conn.IsClosed() {\n\t\tif", "s.conn == nil {\n\t\tif",
		postgresTest("TestLostConnection$"),
	},
	{
		"postgres-farthest-vectors", "memory", "agents/memory/postgres/vectors.go",
		"cmp.Compare(b.near, a.near)", "cmp.Compare(a.near, b.near)",
		postgresTest("TestMeaning$"),
	},
	{
		"postgres-left-out-of-backups-unsaid", "memory", "cmd/mbox/cmd_backup.go",
		"if len(names) > 0 {", "if len(names) > 1000 {",
		command{"cmd/mbox", "TestScripts/^memory_postgres$"},
	},
	{
		"postgres-memories-stay-behind", "memory", "cmd/mbox/cmd_agent_rename.go",
		"failed = postgres.Rename(ctx, at, to)", "failed = postgres.Rename(ctx, at, from)",
		command{"cmd/mbox", "TestScripts/^memory_postgres$"},
	},
	{
		"postgres-secret-shown", "memory", "cmd/mbox/config/read.go",
		"isSecret(key) || table == \"postgres.\"", "isSecret(key)",
		command{"cmd/mbox/config", "TestSecretsStayOutOfTheFile$"},
	},
	{
		"qdrant-of-all-agents", "memory", "agents/memory/qdrant/qdrant.go",
		"append([]*client.Condition{client.NewMatchKeyword(\"agent_id\", a.uuid)}, also...)", "also",
		qdrantTest("TestQdrant$"),
	},
	{
		"qdrant-tells-done-too-soon", "memory", "agents/memory/qdrant/qdrant.go",
		"Wait: client.PtrOf(true), Points: points})", "Wait: client.PtrOf(false), Points: points})",
		qdrantTest("TestQdrant$"),
	},
	{
		"qdrant-newer-version-written", "memory", "agents/memory/qdrant/qdrant.go",
		"found[\"version\"].GetIntegerValue() != version:", "found[\"version\"].GetIntegerValue() == 0:",
		qdrantTest("TestStrangeCollections$"),
	},
	{
		"qdrant-takes-others-collection", "memory", "agents/memory/qdrant/qdrant.go",
		"case found == nil:", "case found == nil && false:",
		qdrantTest("TestStrangeCollections$"),
	},
	{
		"qdrant-half-made-for-good", "memory", "agents/memory/qdrant/qdrant.go",
		"failed == nil && there {", "failed == nil && there && false {",
		qdrantTest("TestStrangeCollections$"),
	},
	{
		"qdrant-two-of-one-uuid", "memory", "agents/memory/qdrant/qdrant.go",
		"case others == 0:", "case others < 9:",
		qdrantTest("TestNameAnew$"),
	},
	{
		"qdrant-unknown-forgotten", "memory", "agents/memory/qdrant/qdrant.go",
		"if err == nil && !there[id] {", "if err == nil && len(there) == 0 {",
		qdrantTest("TestForgetsAllOrNone$"),
	},
	{
		"qdrant-vector-stays-behind", "memory", "agents/memory/qdrant/vectors.go",
		"if err = s.remove(ctx, s.vectorsOf(a.dim), of); missing(err) {", "if missing(err) {",
		qdrantTest("TestForgottenIsInNoCollection$"),
	},
	{
		"qdrant-late-vector-stays", "memory", "agents/memory/qdrant/vectors.go",
		"if err != nil || len(gone) == 0 {", "if err != nil || len(gone) >= 0 {",
		qdrantTest("TestLateVectorGoes$"),
	},
	{
		"qdrant-models-compared", "memory", "agents/memory/qdrant/vectors.go",
		"return s.meaning.Fits(a.model, a.dim, dim)", "return nil",
		qdrantTest("TestMeaning$"),
	},
	{
		"qdrant-commonest-words", "memory", "agents/memory/qdrant/recall.go",
		"int(in[a]) - int(in[b])", "int(in[b]) - int(in[a])",
		qdrantTest("TestRarest$"),
	},
	{
		"qdrant-long-words-lost", "memory", "agents/memory/qdrant/recall.go",
		"string(letters[:min(len(letters), maxWord)])", "string(letters)",
		qdrantTest("TestRarest$"),
	},
	{
		"qdrant-asked-for-each-word", "memory", "agents/memory/qdrant/recall.go",
		"return all[:min(len(all), mostWords)]", "return all",
		qdrantTest("TestRarest$"),
	},
	{
		"qdrant-name-of-another", "memory", "agents/memory/qdrant/rename.go",
		"other != nil && other.uuid != a.uuid:", "other != nil && other.uuid == \"\":",
		qdrantTest("TestRename$"),
	},
	{
		"qdrant-never-given-up", "memory", "agents/memory/qdrant/qdrant.go",
		"context.WithTimeout(ctx, s.o.Timeout)", "context.WithTimeout(ctx, s.o.Timeout+time.Minute)",
		qdrantTest("TestFaults$"),
	},
	{
		"qdrant-key-told", "memory", "agents/memory/qdrant/connect.go",
		"schemas.Sentence(s.hidden(text), 300)", "schemas.Sentence(text, 300)",
		qdrantTest("TestKeyIsHidden$"),
	},
	{
		"qdrant-key-in-the-clear", "memory", "cmd/mbox/config/qdrant.go",
		"case q.KeyFile+q.KeyEnv != \"\" && u.Scheme", "case q.KeyFile == \"never\" && u.Scheme",
		command{"cmd/mbox/config", "TestRefusedConfig$"},
	},
	{
		"qdrant-key-in-the-url", "memory", "cmd/mbox/config/qdrant.go",
		"u.RawQuery+u.Fragment != \"\" ||", "u.Fragment != \"\" ||",
		command{"cmd/mbox/config", "TestSecretsStayOutOfTheFile$"},
	},
	{
		"qdrant-memories-stay-behind", "memory", "cmd/mbox/cmd_agent_rename.go",
		"errors.Join(s.Rename(ctx, to), s.Close())", "errors.Join(s.Rename(ctx, from), s.Close())",
		command{"cmd/mbox", "TestScripts/^memory_qdrant$"},
	},
	{
		"qdrant-left-out-of-backups-unsaid", "memory", "cmd/mbox/cmd_backup.go",
		"{config.MemoryQdrant, \"Qdrant\", \"snapshots of its collections copy that\"},", "",
		command{"cmd/mbox", "TestScripts/^memory_qdrant$"},
	},
	{
		"memory-program-lists-from-the-beginning", "memory", "agents/memory/adapter/serve.go",
		"for r.After != \"\" && s.listed.after != r.After {", "for r.After != \"\" && s.listed.after == r.After {",
		command{"agents/memory/adapter", "TestLongList$"},
	},
	{
		"memory-program-mends-nothing", "memory", "agents/memory/adapter/adapter.go",
		"case a.Fix != \"\":", "case a.Fix == \"\":",
		command{"agents/memory/adapter", "TestOwnPrograms$"},
	},
	{
		"memory-program-asked-for-vectors", "memory", "agents/memory/adapter/adapter.go",
		"if !s.o.Embed {", "if s.o.Embed && !s.o.Embed {",
		command{"agents/memory/adapter", "TestOwnPrograms$"},
	},
	{
		"memory-embeds-any-answer", "memory", "agents/brain/embed.go",
		"len(v) != len(all[0])", "false",
		command{"agents/brain", "TestEmbedRefuses$"},
	},
}

func sqliteTest(run string) command { return command{"agents/memory/sqlite", run} }

func postgresTest(run string) command { return command{"agents/memory/postgres", run} }

func qdrantTest(run string) command { return command{"agents/memory/qdrant", run} }

func memoryTest(run string) command { return command{"agents/memory", run} }
