package ollamatest

import (
	"fmt"
	"slices"
	"strings"
)

// Token types of a GGUF vocabulary. A text of type named is found in a prompt
// before anything else is, wherever it stands.
const (
	tokenNormal, tokenUnknown, tokenControl, tokenNamed, tokenByte = 1, 2, 3, 4, 6
)

const unknown, begin, end = 0, 1, 2

type vocabulary struct {
	text  []string
	score []float32
	kind  []int32
	id    map[string]int
}

// add returns the token's number. The loader aborts on a text that occurs twice,
// so one that is known already keeps its number.
func (v *vocabulary) add(s string, kind int32, score float32) int {
	if id, ok := v.id[s]; ok {
		return id
	}
	v.text, v.kind, v.score = append(v.text, s), append(v.kind, kind), append(v.score, score)
	v.id[s] = len(v.text) - 1
	return len(v.text) - 1
}

// sentencePiece is the smallest useful vocabulary of a llama: three specials,
// all 256 bytes (so that any text can be encoded) and the printable ASCII
// characters. A space is U+2581.
func sentencePiece() *vocabulary {
	v := &vocabulary{id: map[string]int{}}
	v.add("<unk>", tokenUnknown, 0)
	v.add("<s>", tokenControl, 0)
	v.add("</s>", tokenControl, 0)
	for b := range 256 {
		v.add(fmt.Sprintf("<0x%02X>", b), tokenByte, 0)
	}
	v.add("▁", tokenNormal, -1)
	for c := '!'; c <= '~'; c++ {
		v.add(string(c), tokenNormal, -2)
	}
	return v
}

// pieces cuts a reply into new tokens of at least size characters. Each is new
// because in the scripted model a token is also the place in the reply: a piece
// that is taken already grows, and an end that is short or taken joins the piece
// before it.
func (v *vocabulary) pieces(reply string, size int) (tokens []int, err error) {
	rest := []rune(strings.ReplaceAll(reply, " ", "▁"))
	var cut []string
	for len(rest) > 0 {
		n := min(size, len(rest))
		for n < len(rest) && v.taken(string(rest[:n]), cut) {
			n++
		}
		piece := string(rest[:n])
		if rest = rest[n:]; len(rest) < size {
			piece, rest = piece+string(rest), nil
		}
		for len(cut) > 0 && v.taken(piece, cut) {
			piece, cut = cut[len(cut)-1]+piece, cut[:len(cut)-1]
		}
		cut = append(cut, piece)
	}
	for _, piece := range cut {
		if v.has(piece) {
			return nil, fmt.Errorf("%q is a piece of another reply", piece)
		}
		tokens = append(tokens, v.add(piece, tokenNormal, -100))
	}
	return tokens, nil
}

func (v *vocabulary) taken(piece string, cut []string) bool {
	return v.has(piece) || slices.Contains(cut, piece)
}

func (v *vocabulary) has(s string) bool {
	_, ok := v.id[s]
	return ok
}
