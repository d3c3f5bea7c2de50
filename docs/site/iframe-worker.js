/* Search in pages that are opened from a folder. Browsers start no worker for them, and the theme's search runs in one,
   so this runs the worker's script in a hidden frame. The theme's offline plugin would load such a script from another
   host; it leaves this one in place because of its name. */
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.frame.srcdoc = ""
      this.ready = new Promise((resolve) => {
        this.frame.onload = () => {
          const { contentWindow, contentDocument } = this.frame
          contentWindow.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
          const script = contentDocument.createElement("script")
          script.onload = () => resolve(contentWindow)
          script.src = new URL(url, document.baseURI).href
          contentDocument.body.append(script)
        }
      })
      document.body.append(this.frame)
    }

    async postMessage(data) {
      const frame = await this.ready
      frame.dispatchEvent(new frame.MessageEvent("message", { data }))
    }
  }
}
