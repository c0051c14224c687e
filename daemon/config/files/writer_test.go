package files

import (
	"slices"
	"testing"
)

// TestImports: the files that a .proto file imports are found wherever their statements are in a line, and in no
// comment, text or option.
func TestImports(t *testing.T) {
	two := []string{"a.proto", "b.proto"}
	for text, want := range map[string][]string{
		`syntax = "proto3"; import "a.proto";import public "b.proto"; message R {}`:                                  two,
		`import weak 'a.proto' ;import "b.proto";`:                                                                   two,
		"/* import \"no.proto\"; */ import\n\"a.proto\"; // import \"no.proto\";\nimport \"b.proto\";":               two,
		`option (x) = "import \"no.proto\";"; message import { string import = 1; } import "a.proto";`:               two[:1],
		"syntax = \"proto3\"; // it's one; import 'no.proto';\nmessage R { string a = 1 [json_name = \"import\"]; }": nil,
		"": nil, "import": nil, "import \"open": nil,
	} {
		if got := importsOf(text); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
