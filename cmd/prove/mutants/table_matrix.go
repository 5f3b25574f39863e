package main

func matrixTest(run string) command { return command{"agents/chat/matrix", run} }

// matrixMutants let the bridge to Matrix tell others what is not for them, hear what it
// must not, and lose or repeat.
var matrixMutants = []mutant{
	{
		"matrix-direct-before-others", "chat", "agents/chat/matrix/room.go",
		"len(members.Joined) == 2, err", "len(members.Joined) >= 2, err",
		matrixTest("TestDirectConversations"),
	},
	{
		"matrix-into-encrypted-rooms", "chat", "agents/chat/matrix/send.go",
		"if err := c.open(ctx, room); err != nil {", "if err := c.open(ctx, room); err != nil && !settled(err) {",
		matrixTest("TestEncryptedRooms"),
	},
	{
		"matrix-any-invitation", "chat", "agents/chat/matrix/receive.go",
		"if names[id] == \"\" {\n\t\t\tc.remark", "if id == \"\" {\n\t\t\tc.remark",
		matrixTest("TestInvitations"),
	},
	{
		"matrix-before-we-came", "chat", "agents/chat/matrix/receive.go",
		"return events[i:], nil", "return events[min(i, 0):], nil",
		matrixTest("TestInvitations"),
	},
	{
		"matrix-gap-left-out", "chat", "agents/chat/matrix/receive.go",
		"if room.Timeline.Limited && inside < 0 {", "if room.Timeline.Limited && inside > 0 {",
		matrixTest("TestGap"),
	},
	{
		"matrix-ill-server-settles", "chat", "agents/chat/matrix/room.go",
		"f.status/100 == 4 &&", "f.status/100 >= 4 &&",
		matrixTest("TestSyncsThatFail"),
	},
	{
		"matrix-login-kills-results", "chat", "agents/chat/matrix/send.go",
		"if errors.Is(err, chat.ErrSetup) { //", "if err == chat.ErrSetup { //",
		matrixTest("TestPasswords"),
	},
	{
		"matrix-check-ends-the-login", "chat", "agents/chat/matrix/matrix.go",
		"probe = newChannel(c.Settings, c.server)", "probe = newChannel(c.Settings, c.server)\n\t\tprobe.device = c.device",
		matrixTest("TestPasswords"),
	},
	{
		"matrix-path-from-a-stranger", "chat", "agents/chat/matrix/media.go",
		"([A-Za-z0-9_-]+)$`", "(.+)$`",
		matrixTest("TestFiles"),
	},
}
