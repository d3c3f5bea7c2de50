"""Tasks, states, errors and times in words and as JSON, as the command line and the web page show them."""
