package main

import (
	"runtime"

	"mbox/agents/policy"
)

// defaultRiskProfile is how far an agent is trusted where nothing is said.
func defaultRiskProfile() policy.RiskProfile {
	commands := []string{
		"git", "npm", "cargo", "ls", "cat", "grep", "find", "echo", "pwd", "wc", "head", "tail", "date", "df",
		"du", "uname", "uptime", "hostname", "python", "python3", "pip", "node",
	}
	if runtime.GOOS == "linux" {
		commands = append(commands, "free")
	}
	return policy.RiskProfile{
		Level: policy.Supervised, WorkspaceOnly: true, AllowedCommands: commands,
		ForbiddenPaths: []string{
			"/etc", "/root", "/home", "/usr", "/bin", "/sbin", "/lib", "/opt", "/boot", "/dev", "/proc", "/sys",
			"/var", "/tmp", "~/.ssh", "~/.gnupg", "~/.aws", "~/.config",
		},
		RequireApprovalForMediumRisk: true, BlockHighRiskCommands: true,
		AutoApprove: []string{
			"file_read", "memory_recall", "web_search_tool", "web_fetch", "calculator", "glob_search",
			"content_search", "image_info", "weather", "tool_search", "browser", "browser_open",
		},
		DelegationPolicy: policy.DelegationPolicy{Mode: "forbidden"},
		ApprovalRoute:    policy.ApprovalRoute{TimeoutSecs: 120},
	}
}

// defaultRuntimeProfile is how much an agent may use where nothing is said.
func defaultRuntimeProfile() policy.RuntimeProfile {
	return policy.RuntimeProfile{
		MaxActionsPerHour: 20, MaxCostPerDayCents: 500, ShellTimeoutSecs: 60,
		DelegationTimeout: 120, AgenticTimeoutSecs: 300, MemoryRecallLimit: 5,
	}
}
