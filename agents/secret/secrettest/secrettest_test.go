package secrettest

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// A canary is found in each form, wherever it begins; nothing else is.
func TestFind(t *testing.T) {
	canary, dir := Canary(), t.TempDir()
	files := map[string][]byte{"clear": []byte("a " + canary + " b"), "hex": []byte(hex.EncodeToString([]byte("a" + canary))), "HEX": []byte(strings.ToUpper(hex.EncodeToString([]byte(canary))))}
	for before := range 7 {
		text := []byte(strings.Repeat("ü", before)[before/2:] + canary + strings.Repeat("~", before))
		files["std"+strings.Repeat("x", before)] = []byte(base64.StdEncoding.EncodeToString(text))
		files["url"+strings.Repeat("x", before)] = []byte(base64.RawURLEncoding.EncodeToString(text))
	}
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	files["zst"] = z.EncodeAll(bytes.Repeat([]byte("x "+canary), 1000), nil)
	var packed bytes.Buffer
	g := gzip.NewWriter(&packed)
	if _, err := g.Write([]byte("x " + canary)); err != nil || g.Close() != nil {
		t.Fatal(err)
	}
	files["gz"] = packed.Bytes()
	var want []string
	for name, data := range files {
		want = append(want, filepath.Join(dir, name))
		if err := os.WriteFile(want[len(want)-1], data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"another": Canary(), "cut": canary[1:], "given": canary} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(want)
	found, err := Find(dir, canary, filepath.Join(dir, "given"))
	if err != nil || !slices.Equal(found, want) {
		t.Errorf("%v\n%q, want\n%q", err, found, want)
	}
}
