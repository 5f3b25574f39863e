package main

import (
	"context"

	"mbox/schemas"
)

func completionVerb() *verb {
	return &verb{
		name: "completion", args: "bash|zsh|fish", least: 1, most: 1,
		brief: "print a script that completes mbox lines",
		about: `Prints a script that makes the shell complete mbox's commands and flags, task
ids and agent names.`,
		shows: []string{
			"source <(mbox completion bash)     # in ~/.bashrc",
			"source <(mbox completion zsh)      # in ~/.zshrc",
			"mbox completion fish > ~/.config/fish/completions/mbox.fish",
		},
		run: func(_ context.Context, s *session, args []string) error {
			script, err := s.completionScript(args[0])
			if err == nil {
				s.printf("%s", script)
			}
			return err
		},
		words: func(*session) []string { return []string{"bash", "zsh", "fish"} },
	}
}

func (s *session) completionScript(shell string) (string, error) {
	switch shell {
	case "bash":
		return bashScript, nil
	case "zsh":
		return zshScript, nil
	case "fish":
		return s.app(tree()).ToFishCompletion()
	}
	return "", usagef("mbox completion bash", "no completion for %q: want bash, zsh or fish%s", clean(shell, 40), schemas.Meant(shell, []string{"bash", "zsh", "fish"}))
}

// The scripts call mbox with the words before the cursor and completionFlag. The word at
// the cursor comes with them where it begins with a dash; and behind --, which is then
// seen to be no beginning of a flag. Neither script needs the bash-completion package,
// and neither evaluates the line.
const bashScript = `# mbox completion for bash
_mbox_complete() {
    local cur="${COMP_WORDS[COMP_CWORD]}" words
    local line=("${COMP_WORDS[@]:0:COMP_CWORD}")
    [[ "$cur" == -* || "${COMP_WORDS[COMP_CWORD-1]}" == -- ]] && line+=("$cur")
    words=$("${line[@]}" --generate-bash-completion 2>/dev/null)
    local IFS=$'\n'
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o bashdefault -o default -F _mbox_complete mbox
`

const zshScript = `#compdef mbox
# mbox completion for zsh
_mbox() {
    local -a opts line
    line=("${(@)words[1,CURRENT-1]}")
    [[ "${words[CURRENT]}" == -* || "${words[CURRENT-1]}" == -- ]] && line+=("${words[CURRENT]}")
    opts=("${(@f)$("${line[@]}" --generate-bash-completion 2>/dev/null)}")
    if [[ -n "${opts[1]}" ]]; then
        compadd -a opts
    else
        _files
    fi
}
compdef _mbox mbox
`
