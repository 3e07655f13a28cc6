package real

// StopController ends slurmctld; jobs run on.
func (c *Cluster) StopController() error { return c.stopService(slurmctld) }

// StartController starts slurmctld again.
func (c *Cluster) StartController() error { return c.startService(slurmctld) }

// FreezeController stops slurmctld without ending it: commands wait, and time out.
func (c *Cluster) FreezeController() error { return c.signalService(slurmctld, sigStop) }

// ContController lets a frozen controller go on.
func (c *Cluster) ContController() error { return c.signalService(slurmctld, sigCont) }
