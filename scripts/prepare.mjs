console.log("prepare", process.version)
