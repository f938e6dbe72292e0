// Shows all sections. `data-ready` on the root element says that the page is complete.
showOverview();
showMeasured();
showMemory();
showStages();
showRoofline();
showLinks();
showWhatIf();
showOthers();
const view = showSchedule();
document.documentElement.dataset.ready = Math.round(performance.now());
