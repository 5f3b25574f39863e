package ollamatest

import (
	"fmt"
	"math/rand/v2"
)

// Embedder is a model file for embeddings: a 1-layer random bert with mean
// pooling. Its WordPiece vocabulary has each lower-case ASCII character twice: as
// the start of a word (prefix U+2581) and as a continuation (bare). Since the
// layer adds little, an embedding is close to a bag of characters, so texts that
// share letters are near each other.
func Embedder(seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 0))
	v := &vocabulary{id: map[string]int{}}
	for _, s := range []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"} {
		v.add(s, tokenControl, 0)
	}
	for c := '!'; c <= '~'; c++ {
		if c >= 'A' && c <= 'Z' {
			continue
		}
		v.add("▁"+string(c), tokenNormal, 0)
		v.add(string(c), tokenNormal, 0)
	}
	const layers, embd, ff, heads, ctx = 1, 32, 64, 2, 512
	g := &gguf{}
	g.set("general.architecture", "bert")
	g.set("general.name", "tiny-bert")
	g.set("general.file_type", 0)
	g.set("bert.block_count", layers)
	g.set("bert.context_length", ctx)
	g.set("bert.embedding_length", embd)
	g.set("bert.feed_forward_length", ff)
	g.set("bert.attention.head_count", heads)
	g.set("bert.attention.layer_norm_epsilon", 1e-12)
	g.set("bert.attention.causal", false)
	g.set("bert.pooling_type", 1) // mean
	g.set("tokenizer.ggml.model", "bert")
	g.set("tokenizer.ggml.pre", "default")
	g.set("tokenizer.ggml.token_type_count", 2)
	g.set("tokenizer.ggml.tokens", v.text)
	g.set("tokenizer.ggml.scores", v.score)
	g.set("tokenizer.ggml.token_type", v.kind)
	g.set("tokenizer.ggml.padding_token_id", 0)
	g.set("tokenizer.ggml.unknown_token_id", 1)
	g.set("tokenizer.ggml.cls_token_id", 2)
	g.set("tokenizer.ggml.bos_token_id", 2)
	g.set("tokenizer.ggml.seperator_token_id", 3) // the format's own spelling
	g.set("tokenizer.ggml.eos_token_id", 3)
	g.set("tokenizer.ggml.mask_token_id", 4)

	w := func(std float64) func(int, int) float64 {
		return func(int, int) float64 { return rng.NormFloat64() * std }
	}
	one := func(int, int) float64 { return 1 }
	linear := func(name string, std float64, in, out int) {
		g.add(name+".weight", w(std), in, out)
		g.add(name+".bias", nil, out)
	}
	norm := func(name string) {
		g.add(name+".weight", one, embd)
		g.add(name+".bias", nil, embd)
	}
	g.add("token_embd.weight", w(1), embd, len(v.text))
	g.add("token_types.weight", nil, embd, 2)
	g.add("position_embd.weight", w(0.05), embd, ctx)
	norm("token_embd_norm")
	for i := range layers {
		n := func(s string) string { return fmt.Sprintf("blk.%d.%s", i, s) }
		linear(n("attn_q"), 0.1, embd, embd)
		linear(n("attn_k"), 0.1, embd, embd)
		linear(n("attn_v"), 0.05, embd, embd)
		linear(n("attn_output"), 0.05, embd, embd)
		norm(n("attn_output_norm"))
		linear(n("ffn_up"), 0.1, embd, ff)
		linear(n("ffn_down"), 0.05, ff, embd)
		norm(n("layer_output_norm"))
	}
	return g.bytes()
}
