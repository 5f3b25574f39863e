package main

const (
	durableGo  = "mailbox/durable/durable.go"
	lockFileGo = "mailbox/durable/lockfile.go"
	waiterGo   = "mailbox/durable/waiter.go"
	lockGo     = "mailbox/durable/lock.go"
	linuxGo    = "mailbox/durable/durable_linux.go"
)

func durableTest(run string) command { return command{"mailbox/durable", run} }

var durableMutants = []mutant{
	{
		"move-replaces", "8", linuxGo,
		"unix.RENAME_NOREPLACE", "0",
		durableTest("TestRule08_MoveNeverReplaces"),
	},
	{
		"exchange-replaces", "8", linuxGo,
		"unix.RENAME_EXCHANGE", "0",
		durableTest("TestRule08_MoveNeverReplaces"),
	},
	{
		"stage-over-a-file", "8", durableGo,
		"unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW", "unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW",
		durableTest("TestRule08_MoveNeverReplaces"),
	},
	{
		"create-over-a-file", "8", durableGo,
		"unix.O_RDWR|unix.O_APPEND|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW", "unix.O_RDWR|unix.O_APPEND|unix.O_CREAT|unix.O_NOFOLLOW",
		durableTest("TestRule08_MoveNeverReplaces"),
	},
	{
		"read-follows-symlinks", "9", "mailbox/durable/read.go",
		"open(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)", "open(path, flags|unix.O_NONBLOCK, 0)",
		durableTest("TestRule09_ReadWantsRegularFiles"),
	},
	{
		"read-waits-for-a-fifo", "9", "mailbox/durable/read.go",
		"open(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)", "open(path, flags|unix.O_NOFOLLOW, 0)",
		durableTest("TestRule09_ReadWantsRegularFiles"),
	},
	{
		"stage-without-fsync", "10", durableGo,
		"if err == nil && m != None {\n\t\terr = step(OpSync, path", "if err == nil && m == Strict {\n\t\terr = step(OpSync, path",
		durableTest("TestRule10_WhatIsFlushed"),
	},
	{
		"short-write-is-fine", "6", durableGo,
		"if err == nil && n < len(data) {", "if err == nil && n < 0 {",
		durableTest("TestRule06_ShortWrite"),
	},
	{
		"mkdir-without-its-parent", "12", durableGo,
		"\treturn SyncDir(parent, m)", "\treturn nil",
		durableTest("TestRule10_WhatIsFlushed"),
	},
	{
		"mkdir-by-another-unflushed", "12", durableGo,
		"if err != nil && !errors.Is(err, fs.ErrExist) {\n\t\treturn err\n\t}\n\treturn SyncDir(parent, m)",
		"if errors.Is(err, fs.ErrExist) {\n\t\treturn nil\n\t}\n\tif err != nil {\n\t\treturn err\n\t}\n\treturn SyncDir(parent, m)",
		durableTest("TestRule12_FolderMadeByAnother"),
	},
	{
		"replace-before-flush", "18,22", durableGo,
		"if err := Stage(temp, data, m); err != nil {", "if err := Stage(temp, data, None); err != nil {",
		durableTest("TestRule10_WhatIsFlushed"),
	},
	{
		"lock-for-many-goroutines", "2", lockGo,
		"make(chan struct{}, 1)}", "make(chan struct{}, 16)}",
		durableTest("TestRule02_BusyLockFile"),
	},
	{
		"lock-shared", "2", lockFileGo,
		"unix.LOCK_EX|unix.LOCK_NB", "unix.LOCK_SH|unix.LOCK_NB",
		durableTest("TestRule02_BusyLockFile"),
	},
	{
		"lock-waits-for-ever", "3", lockGo,
		"if errors.Is(err, ErrBusy) && time.Now().After(deadline) {", "if errors.Is(err, ErrBusy) && deadline.IsZero() {",
		durableTest("TestRule03_BusyLock$"),
	},
	{
		"lock-file-waits-for-ever", "3,35", waiterGo,
		"time.NewTimer(time.Until(deadline))", "time.NewTimer(time.Hour)",
		durableTest("TestRule02_BusyLockFile"),
	},
	{
		"abandoned-grant-kept", "35", waiterGo,
		"if w.state.Swap(granted) == abandoned {", "if w.state.Swap(granted) == abandoned && err != nil {",
		durableTest("TestRule35_AbandonedWaiter"),
	},
	{
		"waiter-a-call", "35", waiterGo,
		"w.ino == l.ino && w.state", "w.ino != l.ino && w.state",
		durableTest("TestRule35_AbandonedWaiter"),
	},
	{
		"waiter-of-a-lost-name", "3,35", waiterGo,
		"err == nil {\n\t\terr = l.named()\n\t}", "err == nil {\n\t}",
		durableTest("TestRule35_GrantOfAReplacedFile"),
	},
	{
		"lock-made-on-demand", "3", lockFileGo,
		"OpenNamed(l.path, os.O_RDWR)", "OpenNamed(l.path, os.O_RDWR|os.O_CREATE)",
		durableTest("TestRule03_LockFileIsTheOneOfThatName"),
	},
	{
		"lock-of-a-lost-name", "3", lockFileGo,
		"if err == nil {\n\t\t\terr = l.named()\n\t\t}", "",
		durableTest("TestRule03_LockFileIsTheOneOfThatName"),
	},
	{
		"lock-by-device-alone", "3", lockGo,
		"(uint64(st.Dev) != n.dev || st.Ino != n.ino)", "uint64(st.Dev) != n.dev",
		durableTest("TestRule03_LockFileIsTheOneOfThatName"),
	},
	{
		"unlock-keeps-the-flock", "2", lockFileGo,
		"unix.Flock(int(l.file.Fd()), unix.LOCK_UN)", "unix.Flock(int(l.file.Fd()), unix.LOCK_EX)",
		durableTest("TestRule02_BusyLockFile"),
	},
	{
		"named-says-yes", "3", lockGo,
		"errors.Is(err, fs.ErrNotExist) {\n\t\treturn fmt.Errorf(\"%s: %w\", n.path, ErrReplaced)\n\t}\n\treturn err", "errors.Is(err, fs.ErrNotExist) {\n\t\treturn fmt.Errorf(\"%s: %w\", n.path, ErrReplaced)\n\t}\n\treturn nil",
		durableTest("TestRule03_LockOfAReplacedFile"),
	},
	{
		"lock-behind-a-symlink", "3", lockGo,
		"os.O_RDWR|unix.O_NOFOLLOW", "os.O_RDWR",
		durableTest("TestRule03_LockOfAReplacedFile"),
	},
	{
		"task-lock-made-on-demand", "3", lockGo,
		"os.O_RDWR|unix.O_NOFOLLOW", "os.O_RDWR|unix.O_NOFOLLOW|os.O_CREATE",
		durableTest("TestRule03_LockIsNeverMade"),
	},
}
