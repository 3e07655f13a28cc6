//go:build !unix

package lab

import "path/filepath"

func (c *Cluster) callDir() string { return filepath.Join(c.dir, "calls") }

// startBroker has nothing to do where there are no shells that could call.
func (c *Cluster) startBroker() error { return nil }
