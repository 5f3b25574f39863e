package policy

import "runtime"

// DefaultProfile is the name of the profiles that an agent has where it names
// none. They need not stand in mbox.toml.
const DefaultProfile = "default"

// DefaultRiskProfile is a risk profile in which no key is set.
//
// The lists are ZeroClaw's. auto_approve has mbox's own actions besides, but for
// deploy_compose: they are denied by default already, by the table of roles, and
// bounded by their own checks; asking once more for each would make an agent of
// the default profile useless.
func DefaultRiskProfile() RiskProfile {
	return RiskProfile{
		Level:                        Supervised,
		WorkspaceOnly:                true,
		AllowedCommands:              defaultCommands(),
		ForbiddenPaths:               defaultForbidden(),
		RequireApprovalForMediumRisk: true,
		BlockHighRiskCommands:        true,
		AutoApprove:                  defaultAutoApprove(),
		DelegationPolicy:             DelegationPolicy{Mode: delegationForbidden},
	}
}

func defaultCommands() []string {
	list := []string{
		"git", "npm", "cargo", "ls", "cat", "grep", "find", "echo", "pwd", "wc", "head", "tail",
		"date", "df", "du", "uname", "uptime", "hostname", "python", "python3", "pip", "node",
	}
	if runtime.GOOS == "linux" {
		list = append(list, "free")
	}
	return list
}

func defaultForbidden() []string {
	return []string{
		"/etc", "/root", "/home", "/usr", "/bin", "/sbin", "/lib", "/opt", "/boot", "/dev", "/proc", "/sys",
		"/var", "/tmp", "~/.ssh", "~/.gnupg", "~/.aws", "~/.config",
	}
}

func defaultAutoApprove() []string {
	return []string{
		"file_read", "memory_recall", "web_search_tool", "web_fetch", "calculator", "glob_search",
		"content_search", "image_info", "weather", "tool_search", "browser", "browser_open",
		"write_file", "read_file", "file_check", "http_check", "delegate",
	}
}

// DefaultRuntimeProfile is a runtime profile in which no key is set. Zero in
// MaxToolIterations and MaxDelegationDepth leaves the limit to who runs the task.
func DefaultRuntimeProfile() RuntimeProfile {
	return RuntimeProfile{
		MaxActionsPerHour:  20,
		AgenticTimeoutSecs: 300,
		MemoryRecallLimit:  5,
	}
}
