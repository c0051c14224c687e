package main

import "github.com/refitd/refitd/daemon/offline"

type initCmd struct{ offline.InitOptions }

func (c *initCmd) Run(a *app) error { return offline.Init(c.InitOptions, a.out) }
