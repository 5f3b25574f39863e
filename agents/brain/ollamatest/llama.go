package ollamatest

import (
	"fmt"
	"math/rand/v2"
)

// llama is the shape of a llama model.
type llama struct{ layers, width, inner, heads, keyHeads, headWidth, context int }

func (d llama) header(name string, v *vocabulary) *gguf {
	g := &gguf{}
	g.set("general.architecture", "llama")
	g.set("general.name", name)
	g.set("general.file_type", 0) // all F32
	g.set("llama.block_count", d.layers)
	g.set("llama.context_length", d.context)
	g.set("llama.embedding_length", d.width)
	g.set("llama.feed_forward_length", d.inner)
	g.set("llama.attention.head_count", d.heads)
	g.set("llama.attention.head_count_kv", d.keyHeads)
	g.set("llama.attention.key_length", d.headWidth)
	g.set("llama.attention.value_length", d.headWidth)
	g.set("llama.attention.layer_norm_rms_epsilon", 1e-5)
	g.set("llama.rope.dimension_count", d.headWidth)
	g.set("llama.rope.freq_base", rotation)
	g.set("llama.vocab_size", len(v.text))
	g.set("tokenizer.ggml.model", "llama")
	g.set("tokenizer.ggml.pre", "default")
	g.set("tokenizer.ggml.tokens", v.text)
	g.set("tokenizer.ggml.scores", v.score)
	g.set("tokenizer.ggml.token_type", v.kind)
	g.set("tokenizer.ggml.unknown_token_id", unknown)
	g.set("tokenizer.ggml.bos_token_id", begin)
	g.set("tokenizer.ggml.eos_token_id", end)
	g.set("tokenizer.ggml.add_bos_token", true)
	g.set("tokenizer.ggml.add_eos_token", false)
	g.set("tokenizer.ggml.add_space_prefix", false)
	return g
}

// rotation is the base of the position encoding. It is so large that the last
// dimension of a head does not turn with the position: the scripted model's
// attention looks only there.
const rotation = 1e9

type weight func(in, out int) float64

// weights of a layer; nil is zeros.
type weights struct{ query, key, value, output, feed, back weight }

// blocks adds the layers, all with the same weights, and the last norm.
func (d llama) blocks(g *gguf, w weights) {
	one := func(int, int) float64 { return 1 }
	for i := range d.layers {
		n := func(s string) string { return fmt.Sprintf("blk.%d.%s.weight", i, s) }
		g.add(n("attn_norm"), one, d.width)
		g.add(n("attn_q"), w.query, d.width, d.heads*d.headWidth)
		g.add(n("attn_k"), w.key, d.width, d.keyHeads*d.headWidth)
		g.add(n("attn_v"), w.value, d.width, d.keyHeads*d.headWidth)
		g.add(n("attn_output"), w.output, d.heads*d.headWidth, d.width)
		g.add(n("ffn_norm"), one, d.width)
		g.add(n("ffn_gate"), w.feed, d.width, d.inner)
		g.add(n("ffn_up"), w.feed, d.width, d.inner)
		g.add(n("ffn_down"), w.back, d.inner, d.width)
	}
	g.add("output_norm.weight", one, d.width)
}

// Random is a model file of about half a megabyte with random weights: fluent
// nonsense in printable ASCII. Use it with a JSON schema that bounds every
// string and array.
//
// Channel 0 of the residual stream is held constant, which turns column 0 of the
// output matrix into a bias per token (the architecture has none): bytes and
// control tokens are made next to impossible, and the end token gets a modest
// chance.
func Random(seed uint64) []byte { return random(seed, 0) }

// Terse is Random that likes to begin objects and to end strings: lists are not
// often empty, and a reply with many strings comes to its end.
func Terse(seed uint64) []byte { return random(seed, 1.3) }

func random(seed uint64, likely float64) []byte {
	v, rng := sentencePiece(), rand.New(rand.NewPCG(seed, 0))
	d := llama{layers: 2, width: 64, inner: 128, heads: 4, keyHeads: 2, headWidth: 16, context: 4096}
	g := d.header("tiny-random", v)
	gauss := func(deviation float64) float64 { return rng.NormFloat64() * deviation }
	const constant = 4 // its size after the norm is about 3.6
	g.add("token_embd.weight", func(channel, _ int) float64 {
		if channel == 0 {
			return constant
		}
		return gauss(1)
	}, d.width, len(v.text))
	read := func(int, int) float64 { return gauss(0.1) }
	write := func(_, channel int) float64 {
		if channel == 0 {
			return 0
		}
		return gauss(0.05)
	}
	d.blocks(g, weights{query: read, key: read, value: read, output: write, feed: read, back: write})
	g.add("output.weight", func(channel, token int) float64 {
		normal := v.kind[token] == tokenNormal
		switch {
		case channel == 0 && token == end:
			return 0.4
		case channel == 0 && !normal:
			return -10
		case channel == 0 && v.text[token] == `"`:
			return likely
		case channel == 0 && v.text[token] == "{":
			return likely
		case channel == 0 || !normal:
			return 0
		}
		return gauss(0.25)
	}, d.width, len(v.text))
	return g.bytes()
}
