package export

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
)

// ProgramBOM returns the bill of materials of a program in CycloneDX 1.6, as its build information has it: the
// modules that are linked and the standard library, at their versions, with the sums of go.sum and the names (SPDX)
// that licences has for a module's path. version is that of the program. All modules are listed as direct
// dependencies of the program: which of them asked for which is not in a binary. The same binary gives the same
// bytes.
func ProgramBOM(info *debug.BuildInfo, version string, licences map[string][]string) ([]byte, error) {
	module := func(path, version string) bomComponent {
		purl := "pkg:golang/" + path + "@" + url.QueryEscape(version)
		return bomComponent{Type: "library", Name: path, Version: version, PURL: purl, Ref: purl}
	}
	program := module(info.Main.Path, "v"+version)
	program.Type, program.Name, program.Version = "application", programName(info.Path), version
	var out = bom{Format: "CycloneDX", Spec: "1.6", Version: 1}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.time":
			out.Metadata.Timestamp = s.Value
		case "vcs.revision", "vcs.modified", "GOOS", "GOARCH", "CGO_ENABLED", "-tags", "-trimpath":
			program.Properties = append(program.Properties,
				bomProperty{"refitd:build:" + strings.TrimLeft(s.Key, "-"), s.Value})
		}
	}
	out.Parts = []bomComponent{module("std", strings.TrimPrefix(info.GoVersion, "go"))}
	out.Parts[0].Licences = spdx([]string{"BSD-3-Clause"})
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		c := module(d.Path, d.Version)
		if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(d.Sum, "h1:")); err == nil &&
			len(sum) == sha256.Size {
			c.Hashes = []bomHash{{"SHA-256", hex.EncodeToString(sum)}}
		}
		c.Licences = spdx(licences[d.Path])
		out.Parts = append(out.Parts, c)
	}
	slices.SortFunc(out.Parts, func(a, b bomComponent) int { return strings.Compare(a.Name, b.Name) })
	on := bomDependency{Ref: program.Ref}
	for i := range out.Parts {
		on.On = append(on.On, out.Parts[i].Ref)
	}
	out.Metadata.Component, out.Dependencies = program, []bomDependency{on}
	content, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("export: bill of materials: %w", err)
	}
	sum := sha256.Sum256(content)
	out.Serial = serial(sum[:])
	return out.encode()
}

// programName is the last part of the path of a main package.
func programName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

func spdx(names []string) (list []bomLicence) {
	for _, name := range names {
		list = append(list, bomLicence{bomLicenceID{name}})
	}
	return list
}
