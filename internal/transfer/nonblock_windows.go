package transfer

// dontWait is nothing here: there are no FIFOs among the files.
const dontWait = 0
