"""Web: the application in the browser, its pages, and who may speak to it."""
