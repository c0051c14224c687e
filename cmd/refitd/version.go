package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/refitd/refitd/daemon/build"
	"github.com/refitd/refitd/daemon/export"
	"github.com/refitd/refitd/daemon/report"
)

// licences has the SPDX names of the licences of each module that is linked. A test makes it.
//
//go:embed licences.json
var licences []byte

type versionCmd struct {
	BOM bool `name:"bom" help:"Print the bill of materials of this program in CycloneDX 1.6 JSON: what is linked into it."`
}

// Run prints the version as --version does, or what the program is made of.
func (c *versionCmd) Run(a *app) error {
	if !c.BOM {
		return a.out.Emit("summary", report.Program{Version: build.Version, Build: build.String()})
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New(
			"this binary was built without information on its modules: build it with the Go command, in the module")
	}
	names, err := licencesByModule()
	if err != nil {
		return err
	}
	b, err := export.ProgramBOM(info, build.Version, names)
	if err != nil {
		return err
	}
	return a.print(string(b))
}

// licencesByModule decodes licences.
func licencesByModule() (names map[string][]string, err error) {
	if err = json.Unmarshal(licences, &names); err != nil {
		err = fmt.Errorf("licences of the modules: %w", err)
	}
	return names, err
}
