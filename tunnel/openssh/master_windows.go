package openssh

// SharesConnections: the ssh program of Windows does not.
const SharesConnections = false
