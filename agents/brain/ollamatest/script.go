package ollamatest

import (
	"errors"
	"fmt"
	"math"
)

// Line is what a scripted model says.
type Line struct {
	When string // a text anywhere in the prompt; "" in the first line: whenever no other When is there
	Say  string // the whole reply
	Loop bool   // say it again and again, for ever
}

// Prompt is the template of a scripted model: the conversation as it is. It ends
// with a control token, so that the last token of a prompt is never a piece of a
// reply.
const Prompt = `{{ range .Messages }}[{{ .Role }}] {{ .Content }}
{{ end }}<|assistant|>`

const (
	pieceSize = 12 // characters of a token of a reply
	most      = 31 // lines besides the first: one each in the head's width, whose last dimension is the search
)

// Script is a model file that has its replies by heart, whatever the seed and the
// temperature. Of the lines whose When occurs in the prompt the last one speaks;
// the first line must be the one without When. A reply that is asked for with a
// JSON schema must be such that the schema's grammar allows it, properties in
// the schema's order.
//
// How it works: one head of attention looks for the tokens that the Whens are,
// from any position with the same query, and finds the one with the largest key;
// its value switches on a channel of the residual stream, which makes the first
// piece of that line likely. Each piece of a reply is a token that has a channel
// of its own, and makes its follower likelier than that.
func Script(lines ...Line) ([]byte, error) {
	if len(lines) == 0 || lines[0].When != "" {
		return nil, errors.New("a script begins with the line that has no When")
	}
	if len(lines) > most+1 {
		return nil, fmt.Errorf("a script has at most %d lines", most+1)
	}
	s := &script{vocabulary: sentencePiece(), next: map[int]int{}, seen: map[int]int{}}
	s.add("<|assistant|>", tokenControl, 0)
	for i, line := range lines {
		if err := s.line(i, line); err != nil {
			return nil, err
		}
	}
	return s.model(), nil
}

// script is the machine: tokens, and which follows which.
type script struct {
	*vocabulary
	first []int       // the first piece of each line
	seen  map[int]int // a When's token → its line
	next  map[int]int // a piece → the piece after it, or the end
}

func (s *script) line(i int, line Line) error {
	if i > 0 {
		if line.When == "" || s.has(line.When) {
			return fmt.Errorf("line %d: When must be a text of two characters or more that no other line has", i)
		}
		s.seen[s.add(line.When, tokenNamed, 0)] = i
	}
	tokens, err := s.pieces(line.Say, pieceSize)
	if err != nil || len(tokens) == 0 || line.Loop && len(tokens) < 2 {
		return fmt.Errorf("line %d: say more, and nothing twice (a loop has %d characters at least): %w", i, 2*pieceSize, err)
	}
	s.first = append(s.first, tokens[0])
	for n, token := range tokens[1:] {
		s.next[tokens[n]] = token
	}
	last := tokens[len(tokens)-1]
	s.next[last] = end
	if line.Loop {
		s.next[last] = tokens[0]
	}
	return nil
}

// Channels of the residual stream: 0 is in every token, then one for each
// When as it stands in the prompt, one for each When as attention has found it,
// and one for each piece.
func (s *script) model() []byte {
	lines := len(s.first)
	found := func(line int) int { return lines + line }
	channel, follower := map[int]int{}, map[int]int{} // of a piece; of a piece's channel
	for token, to := range s.next {
		c := 2*lines + len(channel)
		channel[token], follower[c] = c, to
	}
	width := (2*lines + len(channel) + 31) / 32 * 32
	d := llama{layers: 1, width: width, inner: 32, heads: 1, keyHeads: 1, headWidth: most + 1, context: 8192}
	g := d.header("tiny-script", s.vocabulary)
	g.add("token_embd.weight", func(c, token int) float64 {
		line, isWhen := s.seen[token]
		piece, isPiece := channel[token]
		return is(c == 0 || isWhen && c == line || isPiece && c == piece)
	}, width, len(s.text))

	// A token with two channels has each at half of the norm's square; what the
	// query and the values find there is scaled back to one.
	size := math.Sqrt(float64(width) / 2)
	search := most // the dimension that does not turn
	d.blocks(g, weights{
		query: func(c, dim int) float64 { return is(c == 0 && dim == search) / size },
		key: func(c, dim int) float64 {
			if dim != search || c < 1 || c >= lines {
				return 0
			}
			return 300 * float64(c) / size // a later line by far outweighs an earlier one
		},
		value:  func(c, dim int) float64 { return is(c >= 1 && c < lines && dim == c-1) / size },
		output: func(dim, c int) float64 { return is(c == found(dim+1) && dim < lines-1) },
	})
	g.add("output.weight", func(c, token int) float64 {
		switch {
		case c == 0:
			return 4 * is(token == s.first[0])
		case c > lines && c < 2*lines:
			return 12 * is(token == s.first[c-lines])
		case c >= 2*lines:
			to, ok := follower[c]
			return 40 * is(ok && to == token)
		}
		return 0
	}, width, len(s.text))
	return g.bytes()
}

func is(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
